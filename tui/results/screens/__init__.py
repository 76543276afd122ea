"""The tab of stored results."""
