"""A look at a model before a run: a wrong URL, key, name or parameter is one clear error now, not one per rollout."""

from typing import Protocol, runtime_checkable

from rollouthub.protocols import Model, Sampling

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
class ParticularModel(Protocol):
    """A model that knows, without asking anyone, which parameters it does not take."""

    async def check_sampling(self, sampling: Sampling) -> None:
        """Look at what requests will ask for.

        Raises:
            ConfigError: the model does not take all of it.
        """
        ...


@runtime_checkable
class BudgetedModel(Protocol):
    """A model that may cost so much in one run."""

    @property
    def spent(self) -> float:
        """US dollars of the answers so far."""
        ...

    def count_spent(self, dollars: float) -> None:
        """Count what it has cost before."""
        ...

    def lease(self, dollars: float, *, is_last: bool) -> None:
        """Hold it to a part of a budget that others share; unless it is the last word, more may come."""
        ...


@runtime_checkable
class SharedModel(Protocol):
    """A model whose limits of requests and tokens can be divided among processes."""

    def share(self, sharers: int) -> None:
        """Keep to one of so many equal parts of them."""
        ...


async def preflight(
    model: Model, timeout_seconds: float = TIMEOUT_SECONDS, *, sampling: Sampling | None = None
) -> None:
    """Check a model that has servers, and whether it takes what requests will ask for. Models without either pass.

    Raises:
        UsageError, CredentialError, ConfigError: as `CheckedModel.check` and `ParticularModel.check_sampling`.
    """
    if sampling is not None and isinstance(model, ParticularModel):
        await model.check_sampling(sampling)
    if isinstance(model, CheckedModel):
        await model.check(timeout_seconds)
