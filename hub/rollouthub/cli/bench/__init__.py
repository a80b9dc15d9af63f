"""`hub bench`: what the hub itself costs."""
