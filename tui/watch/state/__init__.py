"""What is known of a watched run and its processes."""
