"""MARTI: a workflow (`workflow_func_path`) that plays the hub's environments, one seat for each MARTI agent.

Each turn becomes a step of the seat's agent, with the token ids that the agent's engine read and sampled, and a reward
of its own.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Literal

from rollouthub.errors import ConfigError, ModelError
from rollouthub.export import Credit, TrainingRow, critic_view, training_rows, turn_returns
from rollouthub.export.task_column import find_task
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.rollout import Rollout, Turn
from rollouthub.trainers.engines.loop_engine import LoopEngine
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.stream import RolloutWorker
from rollouthub.trainers.workers.in_thread import THREAD_WORKERS
from rollouthub.trainers.workers.retry_until_trainable import play_learnable
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings

_NAME = "marti"

AgentConfig = Mapping[str, Any]
"""MARTI's configuration of an agent: `agent_id`, `agent_role`, `llm`, `tokenizer`, `sampling_params` …"""
Step = dict[str, Any]
Per = Literal["turn", "agent"]


async def workflow(
    prompt: str,
    label: str,
    agents: Sequence[AgentConfig],
    tool_manager: Any = None,
    task: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Play the task that the metadata or the label names. Returns MARTI's record of the episode.

    Keys of `workflow_args`: `per` is "turn" (a step for each turn; the default) or "agent" (a step for each agent, so
    that every rollout makes the same number of steps); `discount` is the factor by which a reward counts less one turn
    earlier; `nested` returns a list of steps for each agent, for processors that flatten the trajectory.

    Raises:
        ConfigError: a setting is invalid, or the row names no task.
        NotTrainable: no sample of the task may be trained on; MARTI cannot represent this.
    """
    asked: Mapping[str, Any] = kwargs.get("workflow_args") or {}
    settings = read_settings(asked.get("settings"))
    loop = asyncio.get_running_loop()

    def worker() -> AbstractAsyncContextManager[RolloutWorker]:
        return _worker(settings, agents, kwargs.get("max_length"), loop)

    thread_worker = await THREAD_WORKERS.opened(_NAME, worker)
    rollout = await play_learnable(thread_worker, find_task(metadata, label), settings)
    return result_of(
        rollout,
        prompt,
        label,
        agents,
        per=asked.get("per", "turn"),
        credit=Credit(discount=asked.get("discount", 1.0)),
        is_nested=bool(asked.get("nested")),
    )


def _worker(
    settings: TrainingSettings,
    agents: Sequence[AgentConfig],
    max_length: int | None,
    loop: asyncio.AbstractEventLoop,
) -> AbstractAsyncContextManager[RolloutWorker]:
    models: dict[str, Model] = {}
    for agent in agents:
        role = str(agent["agent_role"])
        engine = LoopEngine(_asking(agent["llm"]), agent["sampling_params"], loop)
        models[role] = settings.token_model(f"{_NAME}/{role}", engine, agent["tokenizer"], max_length)
    if len(models) < len(agents):
        raise ConfigError("two agents of MARTI's have one role; each plays the seat of its role's name")
    return settings.worker(_NAME, SeatModels(models), takes_seat=False)


def _asking(llm: Any) -> Any:
    """`generate_async` of a Ray actor, wrapped as a function of token ids and sampling parameters."""

    def generate(prompt_ids: list[int], params: Any) -> Any:
        return llm.generate_async.remote(prompt_ids=prompt_ids, sampling_params=params)

    return generate


class SeatModels:
    """A model that routes each call to the model of the caller's seat; if there is a single model, it serves all
    seats.
    """

    name = f"{_NAME}/policies"

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request with the model of its seat.

        Raises:
            ModelError: no agent has the seat's name as its role, or the agent's model failed.
        """
        model = self._models.get(request.seat)
        if model is None and len(self._models) == 1:
            model = next(iter(self._models.values()))
        if model is None:
            known = ", ".join(self._models)
            raise ModelError(
                f"no agent has the role {request.seat!r} of the environment's seat: {known}", retryable=False
            )
        return await model.generate(replace(request, session=f"{request.session}/{request.seat}"))


# --- the record -------------------------------------------------------------------------------------------------------


def result_of(
    rollout: Rollout,
    prompt: str,
    label: str,
    agents: Sequence[AgentConfig],
    *,
    per: Per = "turn",
    credit: Credit | None = None,
    is_nested: bool = False,
) -> dict[str, Any]:
    """A rollout as a MARTI workflow's result: steps in the order of the turns, and rewards [agent][step].

    Raises:
        NotTrainable: the rollout must not be trained on.
        ConfigError: no agent has the role of a seat, or the rollout shows pictures, for which MARTI has no place.
    """
    no_pictures([rollout])
    rows = training_rows(rollout)
    returns = turn_returns(rollout, credit or Credit())
    steps: list[Step] = []
    if per == "turn":
        steps = [
            _turn_step(turn, returns[turn.index], _index_of(turn.agent, agents), agents)
            for turn in rollout.policy_turns
        ]
    else:
        for seat in rollout.policy_seats:
            own = [row for row in rows if row.segment.agent == seat]
            row = max(own, key=lambda each: (sum(each.segment.loss_mask), each.index))
            worth = returns[row.turns[0]]
            steps.append(_row_step(row, worth, len(own), _index_of(seat, agents), agents))
    counts = [0] * len(agents)
    nested = [list[Step]() for _ in agents]
    for step in steps:
        index: int = step["agent_index"]
        step["turn_id"] = counts[index]
        counts[index] += 1
        nested[index].append(step)
    return {
        "prompt": prompt,
        "label": label,
        "trajectory": nested if is_nested else steps,
        "reward_matrix": [[step["reward"] for step in own] for own in nested],
        "final_reward": rollout.reward,
        **({"critic_view": critic_view(rollout)} if len(rollout.policy_seats) > 1 else {}),
    }


def _index_of(seat: str, agents: Sequence[AgentConfig]) -> int:
    """Index of the agent that played a seat."""
    for index, agent in enumerate(agents):
        if agent["agent_role"] == seat:
            return index
    if len(agents) == 1:
        return 0
    raise ConfigError(f"no agent has the role of the seat {seat!r}")


def _step(index: int, agents: Sequence[AgentConfig], reward: float, **fields: Any) -> Step:
    agent = agents[index]
    return {
        "turn_id": 0,
        "agent_index": index,
        "agent_id": agent["agent_id"],
        "agent_name": agent["agent_id"],
        "agent_role": agent["agent_role"],
        "reward": reward,
        **fields,
    }


def _turn_step(turn: Turn, reward: float, index: int, agents: Sequence[AgentConfig]) -> Step:
    """The step of one turn: the turn's whole prompt, and its answer as the output."""
    assert turn.prompt_token_ids is not None
    assert turn.output_token_ids is not None
    assert turn.output_logprobs is not None
    prompt, output = list(turn.prompt_token_ids), list(turn.output_token_ids)
    fields: Step = {"action_mask": list(turn.output_mask)} if turn.output_mask is not None else {}
    return _step(
        index,
        agents,
        reward,
        agent_input="\n".join(message.text for message in turn.messages),
        agent_output=turn.response.text,
        output_ids=output,
        sequence_ids=[*prompt, *output],
        rollout_log_prob=_logprobs([0.0] * len(prompt) + list(turn.output_logprobs), agents[index]),
        metadata={"turn": turn.index},
        **fields,
    )


def _row_step(row: TrainingRow, reward: float, count: int, index: int, agents: Sequence[AgentConfig]) -> Step:
    """One step for an agent's whole conversation; tokens that the environment wrote are masked."""
    turns = [row.rollout.turns[turn] for turn in row.turns]
    return _step(
        index,
        agents,
        reward,
        agent_input="\n".join(message.text for message in turns[0].messages),
        agent_output=turns[-1].response.text,
        output_ids=row.response_ids,
        sequence_ids=list(row.segment.token_ids),
        action_mask=row.response_mask,
        rollout_log_prob=_logprobs(list(row.segment.logprobs), agents[index]),
        metadata={"turns": row.turns, "left_out_rows": count - 1},
    )


def _logprobs(values: list[float], agent: AgentConfig) -> list[float] | None:
    """The log-probabilities; None if the trainer's sampling parameters request none."""
    return None if agent["sampling_params"].logprobs is None else values
