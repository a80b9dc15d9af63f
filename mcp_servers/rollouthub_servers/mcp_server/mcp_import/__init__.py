"""`hub import mcp`: an environment around somebody else's MCP server, from one look at it."""
