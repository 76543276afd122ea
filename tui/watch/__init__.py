"""Torch processes of this machine: what their allocators hold, read from outside. No Textual."""
