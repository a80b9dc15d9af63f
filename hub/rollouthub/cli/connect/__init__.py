"""`hub connect`: an episode for apps that start MCP servers."""
