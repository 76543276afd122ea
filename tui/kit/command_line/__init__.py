"""Parts that all commands share: options, output, and the values of settings."""
