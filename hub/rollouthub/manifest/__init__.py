"""`env.toml`: an environment described, in Python or declared; here what may stand in it, and where it is wrong."""

from rollouthub.manifest.declared import AdoptedFrom, RewardSection, SandboxSection
from rollouthub.manifest.python import PythonSection
from rollouthub.manifest.reading import FILE_NAME, SECTIONS, load_manifest, parse_manifest
from rollouthub.manifest.server import PLACEHOLDERS, ServerSection
from rollouthub.manifest.tasks import TaskSource
from rollouthub.manifest.verifier import VerifierSection
from rollouthub.manifest.whole import CONTRACT, Manifest

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
