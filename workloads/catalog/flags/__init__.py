"""What does this flag or option do? Convolutions, attention, precision, compilation, graphs."""
