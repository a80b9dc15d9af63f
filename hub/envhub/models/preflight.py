"""One cheap request before a run: a wrong URL, key or name is one clear error now, not one per rollout later."""

from typing import Protocol, runtime_checkable

from envhub.protocols import Model

TIMEOUT_SECONDS = 5.0


@runtime_checkable
class CheckedModel(Protocol):
    """A model with servers that can be asked whether they serve it."""

    async def check(self, timeout_seconds: float) -> None:
        """Ask them.

        Raises:
            UsageError: a server cannot be reached.
            CredentialError: it refuses the key.
            ConfigError: it does not serve the model.
        """
        ...


@runtime_checkable
class BudgetedModel(Protocol):
    """A model that may cost so much in one run."""

    def count_spent(self, dollars: float) -> None:
        """Count what it has cost before."""
        ...


async def preflight(model: Model, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Check a model that has servers. Other models need none and pass.

    Raises:
        UsageError, CredentialError, ConfigError: as `CheckedModel.check`.
    """
    if isinstance(model, CheckedModel):
        await model.check(timeout_seconds)
