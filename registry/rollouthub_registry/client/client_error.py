"""Errors of requests to a registry."""

from rollouthub.errors import CredentialError, HubError, UsageError


class NotPublished(UsageError):
    """The registry of the namespace has no such package or version; other registries are not asked instead."""


class RegistryRefused(UsageError):
    """The registry refused a request; `status` is the HTTP status, None for a registry in a folder."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class Missing(RegistryRefused):
    """There is no document at a URL."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 404)


class TokenRefused(CredentialError):
    """The registry does not know the token, or the token does not permit the request."""


class RegistryFault(HubError):
    """The registry cannot be reached, is too slow or busy, or gives an invalid answer."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)
