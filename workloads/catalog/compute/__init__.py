"""Products, attention, linear algebra, memory-bound operations."""
