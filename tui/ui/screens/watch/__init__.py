"""The tab of runs under the watch, and its dialogs."""
