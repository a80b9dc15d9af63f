"""`env.toml`, the manifest of an environment: its sections and keys, and its parser, which reports errors by line."""

from rollouthub.plugins.manifest.accepted_section import AcceptedTasks
from rollouthub.plugins.manifest.declared import AdoptedFrom, RewardSection, SandboxSection
from rollouthub.plugins.manifest.manifest import Manifest
from rollouthub.plugins.manifest.manifest_file import SECTIONS, load_manifest, parse_manifest
from rollouthub.plugins.manifest.python_section import PythonSection
from rollouthub.plugins.manifest.server_section import PLACEHOLDERS, ServerSection
from rollouthub.plugins.manifest.tasks_section import TaskSource
from rollouthub.plugins.manifest.verifier_section import VerifierSection

__all__ = [
    "PLACEHOLDERS",
    "SECTIONS",
    "AcceptedTasks",
    "AdoptedFrom",
    "Manifest",
    "PythonSection",
    "RewardSection",
    "SandboxSection",
    "ServerSection",
    "TaskSource",
    "VerifierSection",
    "load_manifest",
    "parse_manifest",
]
