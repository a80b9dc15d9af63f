"""`hub serve env`: an environment in a process of its own."""
