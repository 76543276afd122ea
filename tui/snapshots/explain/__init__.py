"""Why a process ran out of memory: evidence, an account of causes, the conclusion, advice. Pure."""
