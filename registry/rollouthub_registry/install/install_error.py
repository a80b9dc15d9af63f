"""Errors of installing an environment, and of using a damaged installation."""

from rollouthub.errors import UsageError


class InstallRefused(UsageError):
    """A bundle that cannot be installed as asked; nothing of it was left behind."""


class InstallationDamaged(UsageError):
    """What lies on the disk is not what was installed; it is not used."""
