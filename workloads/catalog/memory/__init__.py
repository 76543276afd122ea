"""How the allocator keeps and returns memory."""
