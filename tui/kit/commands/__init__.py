"""The one registry of keys: footer, palette, help and docs/keys.md come from it."""
