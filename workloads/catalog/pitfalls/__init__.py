"""Common mistakes in code and in measurements."""
