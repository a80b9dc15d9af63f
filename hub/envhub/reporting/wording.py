"""Numbers as people read them; a missing one is a dash, never a zero."""

import time

from envhub.reporting.facts import Figure, RunReport

NONE = "–"
NOT_AGAIN = "`hub run` cannot play this again: it did not play it."
KINDS = {
    "scored": "scored",
    "agent_failure": "agent failures",
    "infrastructure_fault": "infrastructure faults",
    "verifier_fault": "verifier faults",
    "cancelled": "cancelled",
    "missing": "not played",
}


def number(value: float | None) -> str:
    """A reward."""
    return NONE if value is None else f"{value:.3f}" if abs(value) < 1e6 else f"{value:.4g}"


def share(value: float | None) -> str:
    """A share, as percent."""
    return NONE if value is None else f"{value:.1%}"


def figure(found: Figure | None, *, is_share: bool = False) -> str:
    """A mean and its interval."""
    if found is None or found.value is None:
        return NONE
    words = share if is_share else number
    return f"{words(found.value)} {interval(found, is_share=is_share)}".rstrip()


def interval(found: Figure | None, *, is_share: bool = False) -> str:
    """The interval alone, in brackets; nothing where there is none."""
    if found is None or found.low is None or found.high is None:
        return ""
    words = share if is_share else number
    # A dash before a minus sign would not be read as one.
    between = "–" if found.low >= 0 and found.high >= 0 else " to "
    return f"({words(found.low)}{between}{words(found.high)})"


def seconds(value: float | None) -> str:
    """A time."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    if value < 120:
        return f"{value:.2f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def dollars(value: float | None) -> str:
    """A cost."""
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 1 else f"${value:.4g}"


def moment(at: float | None) -> str:
    """A time of day, everywhere the same."""
    if at is None:
        return NONE
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    except (OverflowError, OSError, ValueError):
        return NONE


def size(value: float) -> str:
    """A count that may be a quantile."""
    return f"{value:,.0f}"


def count(number: int, noun: str) -> str:
    """So many of something."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def heading(run: RunReport) -> str:
    """Who played what."""
    environments = list(dict.fromkeys(each.name for each in run.identity.environments))
    who = run.identity.models or tuple(agent.name for agent in run.identity.agents)
    what = ", ".join(environments[:4]) + (" …" if len(environments) > 4 else "")
    return f"{', '.join(who[:3]) or 'nobody yet'} on {what or 'no environment yet'}"


def sentence(run: RunReport) -> str:
    """What made the numbers, in a sentence."""
    identity = run.identity
    names = [f"{each.name} {each.version}, split {each.split}" for each in identity.environments]
    samples = "" if not identity.repeats else f", {count(identity.repeats, 'sample')} each"
    agents = [f"{agent.name} {agent.version}" for agent in identity.agents]
    models = f" with {', '.join(identity.models)}" if identity.models else ""
    seed = "no seed" if identity.seed is None else f"seed {identity.seed}"
    return (
        f"{count(identity.tasks, 'task')} of {'; '.join(names) or 'no environment yet'}{samples}, "
        f"played by {', '.join(agents) or 'nobody yet'}{models}, {seed}."
    )


def signed(found: Figure | None) -> str:
    """A difference and its interval."""
    if found is None or found.value is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.value:+.3f}"
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
