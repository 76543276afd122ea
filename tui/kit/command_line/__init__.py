"""The command line: options, output, values of settings; what all commands share."""
