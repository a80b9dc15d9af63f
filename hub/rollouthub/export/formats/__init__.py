"""Data sets of rollouts, a module a format: its columns, and the rows that a group makes."""
