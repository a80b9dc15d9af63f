"""The environments that ship with the hub, a folder each.

This package imports only the core; entry points register the environments. Begin with `arithmetic`, the smallest.
"""
