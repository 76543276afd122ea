"""Links between GPUs and between hosts, measured in pairs: which pair or which host is slow."""
