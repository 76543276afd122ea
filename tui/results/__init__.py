"""Results that are kept from one start to the next, and compared with one another.

The front end alone opens the store; the runner knows nothing of it.
"""
