"""The in-memory form of a snapshot, and the types that its analysis returns."""
