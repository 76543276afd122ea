"""The tab of the workbench, its dialogs and the presentation."""
