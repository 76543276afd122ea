"""The panes of a run under the watch."""
