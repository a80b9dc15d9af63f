"""`hub serve`: one subcommand for each kind of server."""
