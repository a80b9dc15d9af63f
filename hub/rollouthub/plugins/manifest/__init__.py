"""`env.toml`: an environment described, in Python or declared; here what may stand in it, and where it is wrong."""

from rollouthub.plugins.manifest.declared import AdoptedFrom, RewardSection, SandboxSection
from rollouthub.plugins.manifest.manifest import CONTRACT, Manifest
from rollouthub.plugins.manifest.manifest_file import FILE_NAME, SECTIONS, load_manifest, parse_manifest
from rollouthub.plugins.manifest.python_section import PythonSection
from rollouthub.plugins.manifest.server_section import PLACEHOLDERS, ServerSection
from rollouthub.plugins.manifest.tasks_section import TaskSource
from rollouthub.plugins.manifest.verifier_section import VerifierSection

__all__ = [
    "CONTRACT",
    "FILE_NAME",
    "PLACEHOLDERS",
    "SECTIONS",
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
