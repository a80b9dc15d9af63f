"""Where an environment's tools run: the home of the sandbox providers."""
