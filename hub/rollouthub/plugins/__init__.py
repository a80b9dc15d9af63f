"""What is installed, and under which name: entry points, presets, `env.toml`, locks, importers.

Imports the flat modules. Begin with `entry_points.py`.
"""

from rollouthub.moved import names_of

__getattr__ = names_of("rollouthub.plugins", "rollouthub.plugins.entry_points")
