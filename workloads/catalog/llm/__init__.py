"""How fast does a language model run here? Prefill, decoding, loading of weights."""
