"""Tests of hosts: addresses, our modules in memory, and what may go wrong with a connection."""
