"""What the points of a sweep amount to."""
