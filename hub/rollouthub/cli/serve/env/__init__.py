"""`hub serve env`: serves an environment from a process of its own."""
