"""`hub serve`: everything that the hub serves, a command each."""
