"""Is this machine healthy? Copies, products, linear algebra, the ceiling, a burn-in."""
