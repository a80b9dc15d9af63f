"""The hub's own benchmarks: what each layer costs, measured in processes of their own.

Imported by `hub bench` alone. Begin with `overhead.py`.
"""
