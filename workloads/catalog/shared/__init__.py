"""Code that several groups share; declares no workload."""
