"""Tasks in foreign formats: looking through a folder of them, and making an environment of those that can be run.

An importer is found through the entry-point group `envhub.importers`: name → a function without arguments that returns
an `Importer`.
"""

from envhub.importers.importer import IMPORTERS, Candidate, Importer, find_importer

__all__ = ["IMPORTERS", "Candidate", "Importer", "find_importer"]
