"""Limits."""

# pyright: basic


class LimitExceededError(Exception):
    """There is no more."""

    def __init__(self, type: str, *, value: float, limit: float, message: str) -> None:
        super().__init__(message)
        self.type = type
