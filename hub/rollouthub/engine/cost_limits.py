"""Refuses limits that cannot take effect: times past a deadline, and costs where the price is unknown."""

from rollouthub.engine.plan import Plan
from rollouthub.errors import ConfigError
from rollouthub.limits import Deadlines, Limits
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.prices import find_price
from rollouthub.models.resolve import addressed

GIVE_PRICES = (
    "give --price-prompt and --price-output (US dollars per million tokens); of other models than the one that plays, "
    "in a --config file"
)


def check_limits(limits: Limits, deadlines: Deadlines, is_priced: bool) -> None:
    """Refuse limits that could never stop an episode.

    Raises:
        ConfigError: names the limit, and says what to do.
    """
    if limits.max_seconds is not None and limits.max_seconds > min(deadlines.agent, deadlines.episode):
        raise ConfigError(
            f"max_seconds = {limits.max_seconds:g} is past a deadline (deadlines.agent = {deadlines.agent:g}, "
            f"deadlines.episode = {deadlines.episode:g}), which would count as a fault; raise it with --agent-timeout"
        )
    if limits.max_cost is not None and not is_priced:
        raise ConfigError(f"max_cost = {limits.max_cost:g} cannot be kept without a price: {GIVE_PRICES}")


def check_run_cost(plan: Plan, credentials: Credentials) -> None:
    """Refuse a cost limit of the run unless the price of each model is known; mock models need none, but at least one
    model must have a price.

    Raises:
        ConfigError: names the models without a price.
    """
    dollars = plan.request.run_limits.max_cost
    if dollars is None:
        return
    fallbacks = (fallback for model in plan.models for fallback in model.fallbacks)
    models = [*plan.models, *fallbacks, *plan.request.roles.values()]
    unpriced = [model.name for model in models if find_price(*priced(model, credentials)) is None]
    unknown = [name for name in unpriced if not name.startswith("mock/")]
    if unknown or len(unpriced) == len(models):
        what = f"the price of {', '.join(unknown or unpriced)}" if models else "a model that has a price"
        raise ConfigError(f"the run's limit of ${dollars:g} cannot be kept without {what}: {GIVE_PRICES}")


def priced(model: ModelConfig, credentials: Credentials) -> tuple[ModelConfig, str | None]:
    """The model, and the base URL that decides its price."""
    found = addressed(model, credentials)
    return found, found.base_url
