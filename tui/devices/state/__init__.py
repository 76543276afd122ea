"""What is known of devices: readings with their age and history."""
