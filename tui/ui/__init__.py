"""The workbench on a terminal: everything that Textual draws."""
