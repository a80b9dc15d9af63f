"""How environments are published and installed: the home of the registry."""
