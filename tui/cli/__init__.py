"""The command line: what can be asked for. Imports neither Textual nor torch nor NVML."""
