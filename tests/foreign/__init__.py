"""Programs that hold imported formats to their own projects' results, for whoever wants to see it."""
