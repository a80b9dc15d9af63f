"""Many environments behind one address: agents of any make play over MCP, and ask the run's model."""
