"""The registry of keys, from which footer, palette, help and docs/keys.md are made."""
