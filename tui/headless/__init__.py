"""Commands that time workloads without a screen, here or on several hosts, and their parts."""
