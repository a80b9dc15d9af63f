"""The error of a bundle that cannot be built or read."""

from rollouthub.errors import UsageError


class BundleRefused(UsageError):
    """A folder that does not become a bundle, or an archive that is no bundle; nothing was written."""
