"""The reason why a process ran out of memory: evidence, account, conclusion, advice. Pure."""
