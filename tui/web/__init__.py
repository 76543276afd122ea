"""The workbench in a browser, by textual-serve."""
