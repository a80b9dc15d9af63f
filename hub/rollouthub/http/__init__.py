"""Listeners, their bounds and guards: the HTTP that every server of the hub shares.

Imports the flat modules alone. Begin with `listener.py`.
"""
