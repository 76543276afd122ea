"""Tests of rehearsals; those with a simulated GPU are in tests/simulated_gpu."""
