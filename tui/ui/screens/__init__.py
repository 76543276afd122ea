"""Screens: the workbench, the other tabs, the demo and the dialogs, each with what its keys do."""
