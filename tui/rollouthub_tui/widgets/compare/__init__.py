"""Two runs, task by task."""
