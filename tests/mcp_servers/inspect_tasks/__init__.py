"""Inspect."""
