"""Errors of installing an environment, and of using a damaged installation."""

from rollouthub.errors import UsageError


class InstallRefused(UsageError):
    """A bundle cannot be installed as requested; nothing of it was left behind."""


class InstallationDamaged(UsageError):
    """The files on disk differ from those that were installed; the installation is not used."""
