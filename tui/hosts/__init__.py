"""Other machines: a host is a command that connects a pipe to a Python there.

Nothing is installed on a host and nothing is written to its disks. Our modules travel as a zip
file over standard input into memory, and the child that runs there speaks the same JSON lines as a
child on this machine.
"""
