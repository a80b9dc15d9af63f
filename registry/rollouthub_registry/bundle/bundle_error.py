"""The error of a bundle that cannot be built or read."""

from rollouthub.errors import UsageError


class BundleRefused(UsageError):
    """A folder cannot become a bundle, or a file is not a valid bundle; nothing was written."""
