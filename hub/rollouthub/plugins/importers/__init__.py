"""Tasks in foreign formats: looking through a folder of them, and making an environment of those that can be run.

An importer is found through the entry-point group `rollouthub.importers`: name → a function without arguments that
returns an `Importer`. What is no folder of tasks, such as an MCP server, brings a command of its own through
`rollouthub.import_commands`.
"""

from rollouthub.plugins.importers.importer import COMMANDS, IMPORTERS, Candidate, Identity, Importer, find_importer

__all__ = ["COMMANDS", "IMPORTERS", "Candidate", "Identity", "Importer", "find_importer"]
