"""The agent loop manager for veRL's V1 trainer: the hub plays whole groups in the trainer's process, and puts each
into TransferQueue when it is complete.
"""

import atexit
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from anyio.from_thread import start_blocking_portal

from rollouthub.errors import ConfigError
from rollouthub.export import seat_id
from rollouthub.rollout import ONLY_SEAT
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.verl.agent_loop import LoopSettings, played, token_output
from rollouthub.trainers.verl.agent_loop_entry import read_entry
from rollouthub.trainers.verl.outputs import Output
from rollouthub.trainers.verl.row_workers import Playing, VerlPolicy, playing_with
from rollouthub.trainers.verl.whole_groups import ANY, GroupRules, group_rules, whole_group

logger = logging.getLogger(__name__)

_TAKEN = ("agent_name", "__rollout_n__", "__do_sample__")
"""Columns of a row that are meant for veRL's workers and are not passed on with the sample."""
_REPLACED = ("_run_prompt", "_agent_loop_postprocess")


def sessions(group: Sequence[Sequence[Output]], *, by_seat: bool) -> Iterator[tuple[str, Sequence[Output]]]:
    """The outputs of a group's rollouts as V1's sessions, each with its seat.

    V1 gives all outputs of a session the reward of the last one, so each seat of a rollout is a session of its own.
    With `by_seat` false, as in validation, a rollout is one session with its verdict: the team's, if it has several
    seats.
    """
    for outputs in group:
        seats = dict.fromkeys(output["extra_fields"]["extras"]["seat"] for output in outputs)
        if by_seat:
            for seat in seats:
                yield seat, [output for output in outputs if output["extra_fields"]["extras"]["seat"] == seat]
        else:
            last = outputs[-1]
            verdict = last["reward_score"] if len(seats) == 1 else last["extra_fields"]["extras"]["team_reward"]
            yield ONLY_SEAT, [{**output, "reward_score": verdict, "token_rewards": None} for output in outputs]


def _check_rules(rules: GroupRules, playing: Playing) -> None:
    """Refuse rules that do not fit the environments.

    Raises:
        ConfigError: members are to be cancelled of a group that is scored as a whole.
    """
    if rules.redundancy and playing.scores_groups():
        raise ConfigError(
            f"`groups` has redundancy = {rules.redundancy}, and an environment scores all samples of a task together, "
            "so that none can be broken off; leave redundancy out"
        )


async def _name_group(queueing: Any, prompt: str, session: int, count: int, uid: str) -> None:
    """Compare the rows of a session by another name; their keys keep the prompt's, by which veRL finds them."""
    keys = [f"{prompt}_{session}_{place}" for place in range(count)]
    named = queueing.list_of_dict_to_tensordict([{"uid": uid} for _ in keys])
    await queueing.tq.async_kv_batch_put(keys=keys, fields=named, partition_id="train")


def _group_size(rollout: Any, prompt: Mapping[str, Any], *, is_validation: bool) -> int:
    """How many samples of a prompt make a group: the prompt's own number, else veRL's."""
    return prompt.get("__rollout_n__", rollout.val_kwargs.n if is_validation else rollout.n)


async def _played_group(
    hub: LoopSettings,
    policy: VerlPolicy,
    parameters: Mapping[str, Any],
    row: Mapping[str, Any],
    size: int,
    rules: GroupRules,
) -> list[list[Output]]:
    # That a session is named is V1's way to say that it takes several rows, and a failure for none.
    fields = {**row, "session_id": None}
    begun = size + rules.redundancy
    play = partial(played, hub, policy, parameters, fields, takes_seats=True, group_size=begun)
    return await whole_group(play, size, rules)


def _worker_class() -> Any:
    """A subclass of veRL's V1 worker that plays rows' groups in the hub; veRL's own code processes the outputs.

    Raises:
        ImportError: veRL is not installed, or its worker class has changed.
    """
    queueing: Any = system_module("verl.trainer.ppo.v1.agent_loop_tq")
    queue: Any = queueing.tq
    base: Any = queueing.AgentLoopWorkerTQ.__ray_actor_class__
    if missing := [name for name in _REPLACED if not hasattr(base, name)]:
        raise ImportError(
            f"this veRL's AgentLoopWorkerTQ has no {missing[0]}; docs/trainers/verl.md names one that has"
        )

    class GroupWorker(base):
        """Plays a row's group in the hub, where veRL's worker runs an agent loop for each sample."""

        def __init__(
            self, *args: Any, run: Any = None, components: Any = (), groups: Any = None, rewards: Any = "verdict"
        ) -> None:
            base.__init__(self, *args)
            self.hub = LoopSettings(self.config, run=run, components=components, rewards=rewards)
            self.policy = self.hub.policy(self.llm_client, self.tokenizer, self.processor)
            self.rules = group_rules(groups or {})

        async def _run_prompt(
            self,
            prompt: dict[str, Any],
            sampling_params: dict[str, Any],
            trajectory: dict[str, Any],
            trace: bool = False,
        ) -> None:
            is_validation, parameters = trajectory["validate"], dict(sampling_params)
            size = _group_size(self.config.actor_rollout_ref.rollout, prompt, is_validation=is_validation)
            rules = ANY if is_validation else self.rules
            if not is_validation and not prompt.get("__do_sample__", True):
                queueing.apply_greedy_sampling_params(parameters)
            row = {name: value for name, value in prompt.items() if name not in _TAKEN}
            say = partial(queue.async_kv_put, key=row["uid"], partition_id="val" if is_validation else "train")
            await say(tag={"status": "running"})
            status = "failure"
            try:
                group = await _played_group(self.hub, self.policy, parameters, row, size, rules)
                for session, (seat, outputs) in enumerate(sessions(group, by_seat=not is_validation)):
                    made = [token_output()(**output) for output in outputs]
                    await self._agent_loop_postprocess(made, is_validation, session_id=session, **row)
                    if (uid := seat_id(row["uid"], seat)) != row["uid"]:
                        await _name_group(queueing, row["uid"], session, len(made), uid)
                status = "finished"
            except Exception:  # veRL replaces a group that failed, and waits for ever for one without an end
                logger.exception("the group %s of veRL's failed", row["uid"])
            await say(tag={"status": status})

    return GroupWorker


def agent_loop_manager_tq_class() -> Any:
    """Create `HubAgentLoopManagerTQ` as a subclass of veRL's `AgentLoopManager`, for
    `rollout.agent.agent_loop_manager_class` under V1.

    Raises:
        ImportError: veRL, TransferQueue, or one of their dependencies is not installed.
    """
    agent_loop: Any = system_module("verl.experimental.agent_loop.agent_loop")
    worker_class = _worker_class()

    class HubAgentLoopManagerTQ(agent_loop.AgentLoopManager):
        """Plays whole groups in the hub, and puts them into TransferQueue. It starts no veRL workers."""

        agent_loop_workers_class = None

        async def _init_agent_loop_workers(self) -> None:
            entry = await read_entry(self.rollout_config.agent.agent_loop_config_path, self.llm_client)
            handed = (self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles)
            self._worker: Any = worker_class(*handed, **entry)
            # Before anything is asked, so that what does not hold is told at once, and the run outlives who asks.
            playing = await playing_with(self._worker.hub.hub, self._worker.policy)
            _check_rules(self._worker.rules, playing)
            self._stack = ExitStack()
            self._portal = self._stack.enter_context(start_blocking_portal("asyncio"))
            atexit.register(self.close)

        def generate_sequences(self, prompts: Any) -> None:
            """Start to play a group for each row of `prompts`, without waiting for them.

            Raises:
                ConfigError: the trainer is not V1, but one that waits for its batches.
            """
            if hasattr(prompts, "non_tensor_batch"):
                raise ConfigError(
                    "HubAgentLoopManagerTQ plays for trainer.use_v1=True; a trainer that waits for its batches takes "
                    "rollouthub.trainers.verl.HubAgentLoopManager"
                )
            self._portal.call(self._worker.generate_sequences, prompts)

        def close(self) -> None:
            """Cancel the groups being played; also called when the process ends."""
            atexit.unregister(self.close)
            self._stack.close()

    HubAgentLoopManagerTQ.__module__ = "rollouthub.trainers.verl"
    HubAgentLoopManagerTQ.__qualname__ = "HubAgentLoopManagerTQ"
    return HubAgentLoopManagerTQ
