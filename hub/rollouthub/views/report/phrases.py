"""Words and sentences of reports."""

from rollouthub.statistics import amounts
from rollouthub.statistics.amounts import NONE, count, number, share
from rollouthub.views.report.report_facts import Figure, RunReport

NOT_AGAIN = "`hub run` cannot play this again: it did not play it."
KINDS = {
    "scored": "scored",
    "agent_failure": "agent failures",
    "infrastructure_fault": "infrastructure faults",
    "verifier_fault": "verifier faults",
    "cancelled": "cancelled",
    "missing": "not played",
}
ENDING_WORDS = {"passed": "passed", "not_passed": "not passed", **KINDS}
"""Part of a bar of how rollouts ended → words: scored ones are told apart by their verdict, if they have one."""


def figure(found: Figure | None, *, is_share: bool = False) -> str:
    """Format a mean and its interval."""
    return NONE if found is None else amounts.estimate(found.value, found, share if is_share else number)


def interval(found: Figure | None, *, is_share: bool = False) -> str:
    """Format the interval alone in brackets; empty if there is none."""
    return amounts.interval(found, share if is_share else number)


def corrected(p: float | None) -> str:
    """Format a p-value that is corrected for the number of tests."""
    return "too few differ to test" if p is None else f"p {amounts.p_value(p)}"


def heading(run: RunReport) -> str:
    """The report's title: which models (or agents, without a model) played which environments."""
    environments = list(dict.fromkeys(each.name for each in run.identity.environments))
    who = run.identity.models or tuple(agent.name for agent in run.identity.agents)
    what = ", ".join(environments[:4]) + (" …" if len(environments) > 4 else "")
    return f"{', '.join(who[:3]) or 'no agent yet'} on {what or 'no environment yet'}"


def sentence(run: RunReport) -> str:
    """One sentence on the tasks, agents, models and seed of a run."""
    identity = run.identity
    names = [f"{each.name} {each.version}, split {each.split}" for each in identity.environments]
    samples = "" if not identity.repeats else f", {count(identity.repeats, 'sample')} each"
    agents = [f"{agent.name} {agent.version}" for agent in identity.agents]
    models = f" with {', '.join(identity.models)}" if identity.models else ""
    seed = "no seed" if identity.seed is None else f"seed {identity.seed}"
    return (
        f"{count(identity.tasks, 'task')} of {'; '.join(names) or 'no environment yet'}{samples}, "
        f"played by {', '.join(agents) or 'no agent yet'}{models}, {seed}."
    )


def signed(found: Figure | None) -> str:
    """Format a difference with its sign and its interval."""
    return "" if found is None or found.value is None else amounts.estimate(found.value, found, amounts.signed)
