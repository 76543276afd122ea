"""The simulated GPU: C sources, their build for one version of torch, their configuration."""
