"""Environments of the library verifiers, played by its own loop and scored by its own rubric.

`env_source` finds them and what they need, `importer` writes packages. `verifiers_driver` runs in the foreign
process, over `v0_world` (`load_environment`) or `v1_world` (`Taskset`); `verifiers_env` is what agents meet.
"""

from rollouthub_servers.verifiers.verifiers_env import Verifiers, VerifiersConfig
from rollouthub_servers.verifiers.verifiers_group import VerifiersGroup

__all__ = ["Verifiers", "VerifiersConfig", "VerifiersGroup"]
