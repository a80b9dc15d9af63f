"""Runs on a Ray cluster: the pool, its workers, and model servers. No other package imports Ray.

Imports the engine and below. Begin with `ray_pool.py`.
"""
