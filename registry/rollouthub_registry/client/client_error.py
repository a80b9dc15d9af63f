"""Errors of requests to a registry."""

from rollouthub.errors import CredentialError, HubError, UsageError


class NotPublished(UsageError):
    """The registry of the namespace has no such package or version; no other registry is asked in its place."""


class RegistryRefused(UsageError):
    """The registry does not do what was asked of it; `status` is its HTTP status, None of a directory."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class Missing(RegistryRefused):
    """There is nothing under an address."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 404)


class TokenRefused(CredentialError):
    """The registry does not know the token, or it is not for this."""


class RegistryFault(HubError):
    """The registry cannot be reached, is too slow, too busy, or answers what is no answer."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)
