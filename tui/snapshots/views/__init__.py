"""Text renderings of snapshots."""
