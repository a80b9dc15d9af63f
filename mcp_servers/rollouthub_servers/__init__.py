"""The environments that ship with the hub, a folder each.

Imports the core only; each is found by its entry point. Begin with `arithmetic`, the smallest.
"""
