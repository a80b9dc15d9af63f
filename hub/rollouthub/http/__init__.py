"""Listeners, their bounds and guards: the HTTP that every server of the hub shares.

Imports the flat modules. Begin with `listener.py`.
"""
