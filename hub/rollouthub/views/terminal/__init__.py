"""Drawings of a run in text: what the terminal UI and `hub run` show alike. Rich only; no screen is needed."""
