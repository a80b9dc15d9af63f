"""Plug-ins and environments by name: entry points, presets, `env.toml`, locks and importers.

Imports the flat modules. Begin with `entry_points.py`.
"""

from rollouthub.plugins.moved import names_of

__getattr__ = names_of(
    "rollouthub.plugins",
    "rollouthub.plugins.entry_points",
    "rollouthub.plugins.environments",
    "rollouthub.plugins.agents",
)
