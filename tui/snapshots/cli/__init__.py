"""The ``snapshot`` command."""
