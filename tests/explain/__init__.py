"""Evidence of out-of-memory errors in, conclusions and advice out."""
