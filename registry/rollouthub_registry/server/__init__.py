"""A registry: a directory of published environments, read and written directly or through a server."""
