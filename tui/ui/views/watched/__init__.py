"""A run under the watch, and the runs that are kept, as lines. Pure."""
