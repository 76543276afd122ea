"""Tests of the comparison of equal devices."""
