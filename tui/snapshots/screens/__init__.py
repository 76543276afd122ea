"""The tab of snapshots."""
