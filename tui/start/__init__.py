"""How each kind of screen is started."""
