"""The snapshot tab and its dialogs."""
