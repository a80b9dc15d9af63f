"""`hub import mcp`: writes an environment around an existing MCP server after connecting to it once."""
