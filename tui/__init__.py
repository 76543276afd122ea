"""The program ``gpu-workbench``: what draws, what samples the devices, what talks to the runner."""
