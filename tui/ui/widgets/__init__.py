"""One widget per file. Widgets show the store and ask through ``Actions``; they know no child."""
