"""Why does the memory run out? How the allocator keeps and returns memory."""
