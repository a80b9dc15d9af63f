"""Hosts an environment class inside this process."""
