"""The widgets of the snapshot tab."""
