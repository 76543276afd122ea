"""What a rate is held against: published peaks, the PCIe link, ceilings measured on this box."""
