"""Runs on a Ray cluster: the pool, its workers, and model servers. No other package imports Ray.

This package imports the engine and what is below it. Begin with `ray_pool.py`.
"""
