"""Commands run under the watch, and what they leave."""
