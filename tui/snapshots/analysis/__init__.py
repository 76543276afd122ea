"""The cause of an OOM, the owners of memory and its layout: pure functions of a snapshot."""
