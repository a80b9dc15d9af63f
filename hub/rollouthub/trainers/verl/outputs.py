"""A rollout as keyword arguments of veRL's `AgentLoopOutput`: one for each of its rows, or one masked output."""

from collections.abc import Iterable, Sequence
from typing import Any

from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference, TrainingRow, training_rows
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import shows_media
from rollouthub.trainers.verl.batch_columns import RewardPlace, global_steps, token_rewards

Output = dict[str, Any]
"""Keyword arguments of `AgentLoopOutput`."""


def loop_outputs(
    rollout: Rollout,
    *,
    need: Need = "logprobs",
    rewards: RewardPlace = "verdict",
    seat: str | None = None,
    components: Iterable[str] = (),
    prompt_length: int | None = None,
    response_length: int | None = None,
) -> list[Output]:
    """One output for each row, with the reward of its seat; with `seat`, only that seat's rows.

    With `rewards="turns"`, `token_rewards` has the rewards by token, placed as `columns` says; otherwise it is None,
    and veRL puts `reward_score` on the last token.

    `components` are the reward components to report, besides the reward and whether it passed. veRL requires equal keys
    for all samples, so a component that the rollout lacks is NaN.

    Raises:
        NotTrainable: the rollout must not be trained on, or a row is longer than veRL's lengths.
    """
    rows = training_rows(rollout, need=need, seat=seat)
    return [_output(row, need, rewards, components, prompt_length, response_length) for row in rows]


def _output(
    row: TrainingRow,
    need: Need,
    rewards: RewardPlace,
    components: Iterable[str],
    prompt_length: int | None,
    response_length: int | None,
) -> Output:
    rollout, prompt, response = row.rollout, row.prompt_ids, row.response_ids
    for name, ids, most in (("prompt", prompt, prompt_length), ("response", response, response_length)):
        if most is not None and len(ids) > most:
            why = f"its row has {len(ids)} {name} ids, and veRL's rollout.{name}_length is {most}"
            raise NotTrainable(RefusalReason(Refusal.TOO_LONG, why, rollout.rollout_id))
    return {
        "prompt_ids": prompt,
        "response_ids": response,
        "response_mask": row.response_mask,
        "response_logprobs": row.response_logprobs if need == "logprobs" else None,
        "reward_score": row.reward,
        "token_rewards": token_rewards(row, rewards) if rewards == "turns" else None,
        "num_turns": _chat_turns(rollout, row.turns),
        "metrics": _metrics(rollout),
        "extra_fields": _fields(
            rollout,
            components,
            turn_scores=[rollout.turns[turn].reward for turn in row.turns],
            is_scored=True,
            extras={
                "row": row.index,
                "rows": row.count,
                "seat": row.seat,
                "is_truncated": row.is_truncated,
                "refusal": None,
            },
        ),
    }


def masked_output(
    rollout: Rollout,
    refused: RefusalReason,
    *,
    pad_token_id: int,
    reward: float | None = None,
    need: Need = "logprobs",
    components: Iterable[str] = (),
    prompt_length: int | None = None,
    response_length: int | None = None,
) -> Output:
    """A fully masked output with the reason of the refusal, where veRL requires an output for every row.

    `reward` is None if no trainable reward exists, also if the reward was earned with a person's help or by the
    reference solution.
    """
    prompt, response = _ids(rollout, pad_token_id)
    prompt = prompt if prompt_length is None else prompt[-prompt_length:]
    response = response[:response_length]
    return {
        "prompt_ids": prompt,
        "response_ids": response,
        "response_mask": [0] * len(response),
        "response_logprobs": [0.0] * len(response) if need == "logprobs" else None,
        "reward_score": 0.0 if reward is None else reward,
        "token_rewards": None,
        "num_turns": _chat_turns(rollout, range(len(rollout.turns))),
        "metrics": _metrics(rollout),
        "extra_fields": _fields(
            rollout,
            components,
            turn_scores=[turn.reward for turn in rollout.turns],
            is_scored=reward is not None,
            extras={"row": 0, "rows": 1, "seat": None, "is_truncated": False, "refusal": refused.refusal.value},
        ),
    }


def _ids(rollout: Rollout, pad_token_id: int) -> tuple[list[int], list[int]]:
    """Prompt and output ids of the first turn that has any; otherwise one padding token each, since veRL takes no empty
    row.

    A rollout that shows pictures also gets padding: image tokens without their picture are no valid prompt.
    """
    for turn in () if shows_media(rollout) else rollout.turns:
        if turn.prompt_token_ids and turn.output_token_ids:
            return turn.prompt_token_ids.tolist(), turn.output_token_ids.tolist()
    return [pad_token_id], [pad_token_id]


def _chat_turns(rollout: Rollout, turns: Iterable[int]) -> int:
    """The number of user, assistant and tool messages, as veRL counts turns."""
    spoken = [rollout.turns[turn] for turn in turns]
    return sum(1 + sum(message.role != "system" for message in turn.messages) for turn in spoken)


def _metrics(rollout: Rollout) -> dict[str, float]:
    timings = rollout.timings
    return {"generate_sequences": timings.model, "tool_calls": timings.tool, "compute_score": timings.verify}


def _fields(
    rollout: Rollout,
    components: Iterable[str],
    *,
    turn_scores: Sequence[float | None],
    is_scored: bool,
    extras: dict[str, Any],
) -> dict[str, Any]:
    parts = {} if rollout.score is None else rollout.score.components
    nan = float("nan")
    info = {f"reward/{name}": parts[name].value if name in parts else nan for name in components}
    passed = None if rollout.score is None else rollout.score.passed
    oldest, newest = global_steps(rollout)
    return {
        "turn_scores": [nan if score is None else score for score in turn_scores],
        "tool_rewards": [],
        "min_global_steps": oldest,
        "max_global_steps": newest,
        "reward_extra_info": {
            **info,
            "is_scored": float(is_scored),
            "passed": nan if passed is None else float(passed),
        },
        "extras": {
            "rollout_id": rollout.rollout_id,
            "group_id": rollout.group_id,
            "task": str(TaskReference.of(rollout)),
            "team_reward": rollout.reward,
            **extras,
        },
    }
