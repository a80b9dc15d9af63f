"""Environments in foreign formats: list what a source offers, and make packages of the items that can be played.

An importer is registered under `rollouthub.importers`; a format whose sources offer no items to choose from, such as
an MCP server, registers a command under `rollouthub.import_commands` instead.
"""

from rollouthub.plugins.importers.available import AvailableItem, AvailableSource, read_available
from rollouthub.plugins.importers.importer import (
    COMMANDS,
    IMPORTERS,
    NO_SNAPSHOT,
    Candidate,
    ForeignFormat,
    Identity,
    Importer,
    Note,
    Written,
    chosen_names,
    chosen_of,
    find_importer,
    silent,
)
from rollouthub.plugins.importers.source import ImportSource, SourceKind

__all__ = [
    "COMMANDS",
    "IMPORTERS",
    "NO_SNAPSHOT",
    "AvailableItem",
    "AvailableSource",
    "Candidate",
    "ForeignFormat",
    "Identity",
    "ImportSource",
    "Importer",
    "Note",
    "SourceKind",
    "Written",
    "chosen_names",
    "chosen_of",
    "find_importer",
    "read_available",
    "silent",
]
