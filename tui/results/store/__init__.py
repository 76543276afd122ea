"""The store of results: records, selection, comparison."""
