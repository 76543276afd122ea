"""Snapshot files that are open: their readers, what is known of them, what is asked."""
