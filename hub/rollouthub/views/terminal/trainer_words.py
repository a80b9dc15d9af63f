"""What a trainer logged of a step, in words."""

from rollouthub.statistics import amounts
from rollouthub.store.trainer_steps import LoggedStep

_MOST_NAMED = 8


def trainer_words(logged: LoggedStep) -> str:
    """The step and its first figures; a value that was no finite number is a dash."""
    named = list(logged.metrics.items())
    said = [f"step {logged.step:,}"]
    said += [f"{name} {amounts.NONE if value is None else f'{value:.4g}'}" for name, value in named[:_MOST_NAMED]]
    more = len(named) - _MOST_NAMED
    return ", ".join([*said, *([f"{more} more"] if more > 0 else [])])
