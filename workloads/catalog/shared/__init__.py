"""What several groups use; declares no workload."""
