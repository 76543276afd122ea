"""Convolutions, by cuDNN or oneDNN."""
