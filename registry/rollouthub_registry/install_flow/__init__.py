"""The commands `hub install`, `upgrade`, `remove` and `lock`, from their arguments to installed and locked packages.

Brings `client`, `trust` and `install` together. Begin with `transaction.py`.
"""
