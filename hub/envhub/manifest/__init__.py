"""`env.toml`: an environment described, in Python or declared; here what may stand in it, and where it is wrong."""

from envhub.manifest.declared import AdoptedFrom, RewardSection, SandboxSection
from envhub.manifest.python import PythonSection
from envhub.manifest.reading import FILE_NAME, SECTIONS, load_manifest, parse_manifest
from envhub.manifest.server import PLACEHOLDERS, ServerSection
from envhub.manifest.tasks import TaskSource
from envhub.manifest.verifier import VerifierSection
from envhub.manifest.whole import CONTRACT, Manifest

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
