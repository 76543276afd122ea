"""What do several GPUs bring? Collective operations, replicated and sharded training."""
