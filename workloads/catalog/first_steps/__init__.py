"""What should I know first? Devices, measurements, and loops that keep a GPU waiting."""
