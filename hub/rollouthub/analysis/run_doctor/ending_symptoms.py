"""Symptoms in how a run and its episodes ended: missing scores, episodes ended by limits, missing answers."""

import re
from collections import Counter
from collections.abc import Iterator

from rollouthub.analysis.run_doctor.attempt_rows import RunRecord
from rollouthub.analysis.run_doctor.symptom import Symptom, share, some_ids
from rollouthub.rollout import Stop

SERIOUS_MISSING = 0.05
STRANGE, SERIOUS = 0.05, 0.5
"""Shares of the scored rollouts above which a flaw of their endings is a remark, and a problem."""
_LIMITS: dict[str, tuple[str, str]] = {
    Stop.TURN_LIMIT: ("turns", "raise --max-turns, or see what they spend them on: hub show RUN ROLLOUT"),
    Stop.TOKEN_LIMIT: ("output tokens", "raise --max-total-tokens"),
    Stop.TIME_LIMIT: ("seconds", "raise --max-seconds, or look for the slow stage below"),
    Stop.COST_LIMIT: ("dollars", "raise --max-cost"),
    Stop.CONTEXT_LIMIT: ("context", "serve the model with a longer context, or give episodes fewer turns"),
}
_NO_ANSWER = re.compile(
    r"no answer|not well-formed|could not be parsed|cannot be parsed|unparse?able|no number|not valid json|no code",
    re.IGNORECASE,
)


def status(run: RunRecord) -> Iterator[Symptom]:
    """Yield whether the run finished, and how many of its rollouts have a score."""
    info = run.info
    mend = f"hub run --resume -o {info.directory}"
    if info.status == "dead":
        says = f"it says it is running, but its process is gone; {len(run.live)} episodes were in flight"
        yield Symptom("run died", "problem", "run", says, "killed, crashed, or the machine went down", mend)
    elif info.status == "failed":
        yield Symptom("run failed", "problem", "run", "it ended on an error", "see its logs/", mend)
    elif info.status == "interrupted":
        yield Symptom("run interrupted", "remark", "run", "it was ended before everything was played", "", mend)
    if not run.planned:
        yield Symptom("empty run", "problem", "run", "it has no rollout", "", "")
        return
    missing = run.planned - len(run.effective)
    unscored = run.planned - len(run.scored)
    if info.status == "running":
        says = f"{len(run.effective):,} of {run.planned:,} rollouts are played; these are its symptoms so far"
        yield Symptom("run is on", "fact", "run", says)
    elif unscored:
        yield Symptom(
            "low coverage" if unscored > SERIOUS_MISSING * run.planned else "coverage",
            "problem" if unscored > SERIOUS_MISSING * run.planned else "remark",
            "run",
            f"{share(unscored, run.planned)} planned rollouts have no score"
            + (f", {missing:,} of them were not played" if missing else ""),
            "means are over the others alone, which may be the easier ones",
            mend,
            unscored,
            some_ids(attempt.rollout_id for attempt in run.effective if not attempt.is_scored),
        )
    if info.bad_rows:
        whole = info.bad_rows + len({attempt.group_id for attempt in run.effective})
        yield Symptom(
            "bad rows",
            "problem" if info.bad_rows > SERIOUS_MISSING * whole else "remark",
            "data",
            f"{share(info.bad_rows, whole)} rows make no task and were left out",
            "the file's rows do not have the form the environment reads",
            "hub doctor --env ENV --set … names them",
            info.bad_rows,
        )


def cut_short(run: RunRecord) -> Iterator[Symptom]:
    """Yield the limits that ended many episodes, and the responses cut off at max_tokens."""
    whole = len(run.scored)
    stops = Counter(attempt.stop for attempt in run.scored)
    for stop, (unit, mend) in _LIMITS.items():
        count = stops[stop]
        if count <= STRANGE * whole:
            continue
        ended = [attempt for attempt in run.scored if attempt.stop == stop]
        mean = sum(attempt.reward or 0.0 for attempt in ended) / count
        rest = [attempt.reward or 0.0 for attempt in run.scored if attempt.stop != stop]
        others = f", of the others {sum(rest) / len(rest):.3f}" if rest else ""
        yield Symptom(
            f"stopped by the limit of {unit}",
            "problem" if count > SERIOUS * whole else "remark",
            "agent",
            f"{share(count, whole)} rollouts; their mean reward is {mean:.3f}{others}",
            "they are scored as they stood when the limit came",
            mend,
            count,
            some_ids(attempt.rollout_id for attempt in ended),
        )
    cut = [attempt for attempt in run.scored if attempt.cut]
    if len(cut) > STRANGE * whole:
        yield Symptom(
            "responses cut off",
            "problem" if len(cut) > SERIOUS * whole else "remark",
            "agent",
            f"{share(len(cut), whole)} rollouts have a response that ended at max_tokens",
            "what the model had not said by then is lost, tool calls included",
            "raise --max-tokens",
            len(cut),
            some_ids(attempt.rollout_id for attempt in cut),
        )


def answers(run: RunRecord) -> Iterator[Symptom]:
    """Yield empty last responses, answers that the verifier could not read, and tool calls that mostly fail."""
    whole = len(run.scored)
    empty = [
        attempt
        for attempt in run.scored
        if attempt.last_length == 0 and not attempt.last_requests and attempt.answer is None
    ]
    if len(empty) > STRANGE * whole:
        yield Symptom(
            "empty answers",
            "problem" if len(empty) > SERIOUS * whole else "remark",
            "agent",
            f"{share(len(empty), whole)} rollouts end in an empty response",
            "often a chat template or reasoning parser that swallows the answer, or max_tokens spent on reasoning",
            "look at one: hub show RUN ROLLOUT; check the server's --reasoning-parser and --tool-call-parser",
            len(empty),
            some_ids(attempt.rollout_id for attempt in empty),
        )
    known = {attempt.rollout_id for attempt in empty}
    lost = [
        attempt
        for attempt in run.scored
        if attempt.rollout_id not in known
        and (attempt.answered == 0 or (attempt.feedback is not None and _NO_ANSWER.search(attempt.feedback)))
    ]
    if len(lost) > STRANGE * whole:
        said = next((attempt.feedback for attempt in lost if attempt.feedback), "no answer was found")
        yield Symptom(
            "answers that cannot be read",
            "problem" if len(lost) > SERIOUS * whole else "remark",
            "agent",
            f"the verifier found no answer in {share(len(lost), whole)} rollouts; it says: {said}",
            "the model does not keep to the form the task asks for, or was cut off before it answered",
            "look at one: hub show RUN ROLLOUT",
            len(lost),
            some_ids(attempt.rollout_id for attempt in lost),
        )
    failing = [attempt for attempt in run.scored if attempt.tool_errors and attempt.tool_errors >= attempt.turns / 2]
    if len(failing) > STRANGE * whole:
        yield Symptom(
            "tool calls that fail",
            "remark",
            "agent",
            f"{share(len(failing), whole)} rollouts got an error from a tool in half of their turns or more",
            "malformed or invented arguments, or a tool that cannot do its work here",
            "look at one: hub show RUN ROLLOUT",
            len(failing),
            some_ids(attempt.rollout_id for attempt in failing),
        )


def trainable(run: RunRecord) -> Iterator[Symptom]:
    """Yield how many scored rollouts cannot be trained on, with the most common reason."""
    reasons = Counter(attempt.untrainable for attempt in run.scored if attempt.untrainable)
    if reasons:
        count, (reason, _) = reasons.total(), reasons.most_common(1)[0]
        yield Symptom(
            "not trainable",
            "fact",
            "run",
            f"{share(count, len(run.scored))} scored rollouts; mostly: {reason}",
            "",
            "only of interest where they are to train a model: serve it with vLLM, which gives token ids",
            count,
        )
