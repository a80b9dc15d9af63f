"""The error of a request that a registry refuses."""

from rollouthub.errors import UsageError


class RegistryRequestRefused(UsageError):
    """A registry refused a request; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, detail: str, *, retry_after_seconds: float | None = None) -> None:
        self.status, self.retry_after_seconds = status, retry_after_seconds
        super().__init__(detail)
