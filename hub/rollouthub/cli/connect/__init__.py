"""`hub connect`: serves an episode to apps that start MCP servers."""
