"""The state of devices: readings with their age and history."""
