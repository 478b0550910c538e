"""How this checkout is set up: standard library only, since nothing else is installed yet."""
