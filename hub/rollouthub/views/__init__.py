"""What people look at: the terminal, reports and notebooks.

Imports everything but the command line. Begin with `terminal/`.
"""
