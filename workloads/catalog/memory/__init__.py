"""How the allocator holds and gives back memory."""
