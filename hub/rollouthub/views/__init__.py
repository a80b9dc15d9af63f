"""Displays of runs for people: in the terminal, in reports and in notebooks.

This package may import every other one except the command line. Begin with `terminal/`.
"""
