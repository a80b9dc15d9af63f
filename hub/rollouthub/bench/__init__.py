"""The hub's own benchmarks: the CPU, memory and time of each layer, measured in separate processes.

Only `hub bench` imports this package. Begin with `overhead.py`.
"""
