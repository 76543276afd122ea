"""The commands without a screen: they print what the screens draw, from the same functions."""
