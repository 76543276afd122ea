"""Everything that can be asked for with a key."""
