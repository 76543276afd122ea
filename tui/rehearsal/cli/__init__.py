"""The command `rehearse`."""
