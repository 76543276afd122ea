"""Why memory ran out, who held it, where it lay: pure functions of a snapshot."""
