"""Rollouts into training systems: a stream, a reward server, and an adapter for each system.

Imports `export`, the engine and below; a training system is imported only inside its adapter. Begin with
`stream/supply.py`.
"""
