"""Commands run under the watch, and the files they leave behind."""
