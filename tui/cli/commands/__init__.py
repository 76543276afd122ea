"""A file for each command: its options, its work and its text. A new file is a new command.

The file's name is the command's, and its ``SUBCOMMAND`` says the rest.
"""
