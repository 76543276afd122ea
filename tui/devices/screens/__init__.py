"""The tabs of memory and processes, and the panes of devices."""
