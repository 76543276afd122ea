"""The commands devices and doctor."""
