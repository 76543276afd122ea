"""How time and memory are measured, and what is made of the figures: clocks, blocks, intervals."""
