"""Language models: a decoder that reads a prompt and writes tokens."""
