"""Limits of a rate: published peaks, the PCIe link, ceilings measured on this machine."""
