"""What is easily done or measured wrongly."""
