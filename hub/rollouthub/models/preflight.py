"""Checks a model before a run, so that a wrong URL, key, name or parameter is one clear error and not one per
rollout.
"""

from typing import Protocol, runtime_checkable

from rollouthub.generation import Model, Sampling

TIMEOUT_SECONDS = 5.0


@runtime_checkable
class CheckedModel(Protocol):
    """A model whose servers can be checked before a run."""

    async def check(self, timeout_seconds: float) -> None:
        """Request the list of models of every server of the model.

        Raises:
            UsageError: a server cannot be reached.
            CredentialError: a server refuses the key.
            ConfigError: a server does not serve the model.
        """
        ...


@runtime_checkable
class ParticularModel(Protocol):
    """A model that can tell, without a call, which sampling parameters it does not accept."""

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check the sampling settings of requests.

        Raises:
            ConfigError: the model does not accept one of them.
        """
        ...


@runtime_checkable
class BudgetedModel(Protocol):
    """A model with a budget for one run."""

    @property
    def spent(self) -> float:
        """Cost of the answers so far, in US dollars."""
        ...

    def count_spent(self, dollars: float) -> None:
        """Count costs of earlier calls, such as in a resumed run, against the budget."""
        ...

    def lease(self, dollars: float, *, is_last: bool) -> None:
        """Limit the model to `dollars` of a shared budget; unless `is_last`, a later lease may raise the limit."""
        ...


@runtime_checkable
class SharedModel(Protocol):
    """A model whose rate limits can be divided among processes."""

    def share(self, sharers: int) -> None:
        """Use one of `sharers` equal parts of the limits."""
        ...


async def preflight(
    model: Model, timeout_seconds: float = TIMEOUT_SECONDS, *, sampling: Sampling | None = None
) -> None:
    """Check a model's servers and the sampling settings of requests; models that have no such check pass.

    Raises:
        UsageError, CredentialError, ConfigError: as `CheckedModel.check` and `ParticularModel.check_sampling`.
    """
    if sampling is not None and isinstance(model, ParticularModel):
        await model.check_sampling(sampling)
    if isinstance(model, CheckedModel):
        await model.check(timeout_seconds)
