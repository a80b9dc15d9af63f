"""Inspect: tasks of inspect_ai, played by its own evaluation and scored by their own scorers (`hub import inspect`).

`task_source` finds them and what they need, `importer` writes packages. `inspect_driver` runs in the foreign process,
over `task_world`, `task_rollout` and `asked_model`; `inspect_env` is what agents meet.
"""

from rollouthub_servers.inspect.inspect_env import Inspect, InspectConfig, InspectSubmit

__all__ = ["Inspect", "InspectConfig", "InspectSubmit"]
