"""How a workload is declared: its parameters, its case, its study, what it may ask of a device."""
