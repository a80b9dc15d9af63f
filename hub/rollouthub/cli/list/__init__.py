"""`hub list`: lists environments and plug-ins."""
