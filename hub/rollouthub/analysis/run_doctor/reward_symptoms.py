"""Symptoms of rewards: constant rewards, which give no training signal, and single deviating rewards."""

from collections.abc import Iterator

from rollouthub.analysis.run_doctor.attempt_rows import AttemptRow, RunRecord
from rollouthub.analysis.run_doctor.symptom import Symptom, share, some_ids

FEW = 20
"""With fewer scored rollouts than this, equal rewards are no symptom."""
STRANGE = 0.5
ODD_GROUP = 6
"""Samples that a group needs before one deviating reward is a symptom."""
_SAME = 1e-9


def rewards(run: RunRecord) -> Iterator[Symptom]:
    """Yield equal rewards over the whole run or within most groups, and single deviating rewards."""
    given = [attempt.reward for attempt in run.scored if attempt.reward is not None]
    if len(given) >= FEW and max(given) - min(given) <= _SAME:
        is_none = given[0] <= 0
        yield Symptom(
            "one reward for all",
            "problem" if is_none else "fact",
            "verifier" if is_none else "run",
            f"every one of {len(given):,} scored rollouts has the reward {given[0]:g}",
            "the verifier, the prompt or the answer's form, rather than the model" if is_none else "",
            "does the reference solution pass? hub run ENV -a oracle --limit 20" if is_none else "",
            len(given),
            some_ids(attempt.rollout_id for attempt in run.scored) if is_none else (),
        )
        return
    groups = [group for group in run.groups() if len(group) >= 2]
    constant = [
        group
        for group in groups
        if max(attempt.reward or 0.0 for attempt in group) - min(attempt.reward or 0.0 for attempt in group) <= _SAME
    ]
    if groups and len(constant) > STRANGE * len(groups):
        solved = sum((group[0].reward or 0.0) > 0 for group in constant)
        yield Symptom(
            "constant groups",
            "remark",
            "data",
            f"{share(len(constant), len(groups))} tasks have one reward for all their samples: {solved:,} above zero, "
            f"{len(constant) - solved:,} at zero or below",
            "too easy or too hard for this model: a group-relative baseline learns nothing from them",
            "more --repeats, a higher --temperature, or other tasks",
            len(constant),
            some_ids(group[0].rollout_id for group in constant),
        )
    odd = [attempt.rollout_id for group in groups if len(group) >= ODD_GROUP for attempt in _odd(group)]
    if odd:
        yield Symptom(
            "odd ones out",
            "remark",
            "agent",
            f"{len(odd):,} rollouts have another reward than all other samples of their task, which agree",
            "luck, or a verifier that errs now and then",
            "read them before you trust a rare reward: hub show RUN ROLLOUT",
            len(odd),
            some_ids(odd),
        )


def _odd(group: list[AttemptRow]) -> list[AttemptRow]:
    """Return the sample whose reward differs where all the others agree, as a list; empty where there is none."""
    ranked = sorted(group, key=lambda attempt: attempt.reward or 0.0)
    low, second, last, high = (ranked[place].reward or 0.0 for place in (0, 1, -2, -1))
    if second - low > _SAME and high - second <= _SAME:
        return [ranked[0]]
    if high - last > _SAME and last - low <= _SAME:
        return [ranked[-1]]
    return []
