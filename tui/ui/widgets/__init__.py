"""Panes and what they are made of: they show the store, ask through ``Actions``, know no child."""
