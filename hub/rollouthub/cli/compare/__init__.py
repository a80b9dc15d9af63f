"""`hub compare`: several models or runs on one set of tasks."""
