"""Where TextArena keeps its registry."""
