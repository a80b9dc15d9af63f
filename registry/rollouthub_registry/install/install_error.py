"""Why an environment is not installed, or what is installed not used."""

from rollouthub.errors import UsageError


class InstallRefused(UsageError):
    """A bundle that cannot be installed as asked; nothing of it was left behind."""


class InstallationDamaged(UsageError):
    """What lies on the disk is not what was installed; it is not used."""
