"""Several GPUs and several processes."""
