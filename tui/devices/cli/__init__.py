"""The command devices, and the samples that others print too."""
