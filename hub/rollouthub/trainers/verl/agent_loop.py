"""The agent loop: veRL requests a rollout for one row, and the hub plays it with veRL's own engine."""

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, check_one_seat, training_rows, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.export.training_row import TrainingRow
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import shows_media
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.verl.batch_columns import RewardPlace
from rollouthub.trainers.verl.outputs import Output, loop_outputs, masked_output
from rollouthub.trainers.verl.row_workers import VerlPolicy, playing_with, task_of
from rollouthub.trainers.verl.verl_engine import sampling_of
from rollouthub.trainers.verl.verl_pictures import VerlPictures, pictures_of
from rollouthub.trainers.verl.whole_groups import no_groups
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings, settings_of

logger = logging.getLogger(__name__)


class LoopSettings:
    """The settings in the hub's entry of `agent_loop_config_path`, with those of veRL's own configuration."""

    def __init__(
        self, config: Any, *, run: Any, components: Sequence[str] = (), rewards: RewardPlace = "verdict"
    ) -> None:
        """`config` is veRL's configuration; `run` has a run's settings, as a mapping or a TOML file's path; `rewards`
        is as for `columns`.

        Raises:
            ConfigError: a setting is invalid.
        """
        rollout = config.actor_rollout_ref.rollout
        self.hub: TrainingSettings = (
            read_settings(run) if run is None or isinstance(run, str) else settings_of(plain(run), "verl's `run`")
        )
        if rewards not in get_args(RewardPlace):
            raise ConfigError(f"verl's `rewards` is {rewards!r}; give one of {', '.join(get_args(RewardPlace))}")
        self.components = tuple(components)
        self.rewards: RewardPlace = rewards
        self.prompt_length, self.response_length = int(rollout.prompt_length), int(rollout.response_length)
        path = str(getattr(config.actor_rollout_ref.get("model"), "path", None) or "policy")
        self._name = f"verl/{path.rstrip('/').rpartition('/')[2]}"
        self._template = {
            **plain(config.data.get("apply_chat_template_kwargs") or {}),
            **self.hub.training.template_kwargs,
        }
        self._processor = plain(config.data.get("mm_processor_kwargs") or {})

    def policy(self, client: Any, tokenizer: Any, processor: Any = None) -> VerlPolicy:
        """The policy to sample from, made of the objects that veRL gives its agent loops. Without a processor it is
        text-only.
        """
        return VerlPolicy(
            client,
            tokenizer,
            self._name,
            self.prompt_length,
            self.response_length,
            self.hub.training.tool_parser,
            self._template,
            None if processor is None else VerlPictures(processor, self._processor),
        )


def plain(value: Any) -> dict[str, Any]:
    """An OmegaConf or other mapping as a plain dict."""
    if isinstance(value, dict):
        return {str(key): each for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  # JSON
    if not isinstance(value, Mapping) and not hasattr(value, "items"):
        raise ConfigError(f"verl's `run` is {value!r:.100}; give a run's settings as a mapping, or a file's path")
    return import_module("omegaconf").OmegaConf.to_container(value, resolve=True)


async def played(
    settings: LoopSettings,
    policy: VerlPolicy,
    parameters: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    takes_seats: bool = False,
    group_size: int | None = None,
) -> list[Output]:
    """Play a row's task. Returns the outputs of the rollout, one for each of its rows.

    Rows of several seats are returned only if the caller `takes_seats`, because veRL takes the outputs of one sample
    for one trajectory. `group_size` is how many samples of the row's group the caller requests at once, if it requests
    whole groups.

    veRL's V1 trainer passes a `session_id` with each sample: it takes several rows, and continues without a sample that
    raises. The earlier trainer takes exactly one row and no failure, so it gets a masked row for a rollout that must
    not be trained on.

    Raises:
        NotTrainable: only under V1: the rollout must not be trained on.
        ConfigError: the row names no task, or the rollout shows pictures and there is no processor.
        UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
    """
    playing = await playing_with(settings.hub, policy)
    takes_several = "session_id" in fields
    step = fields.get("global_steps")
    if takes_several and isinstance(step, int):
        playing.advance(step - 1)  # in V1 step n is begun with the weights of the one before, and must tell them
    uid = fields.get("uid")
    need: Need = "logprobs" if parameters.get("logprobs") else "tokens"
    group = None if uid is None else str(uid)
    rollout = await playing.play(task_of(fields), group, sampling_of(parameters), group_size)
    seat = settings.hub.training.seat
    asked: dict[str, Any] = {
        "need": need,
        "components": settings.components,
        "prompt_length": settings.prompt_length,
        "response_length": settings.response_length,
    }
    try:
        outputs = loop_outputs(rollout, rewards=settings.rewards, seat=seat, **asked)
        if seat is None and not takes_seats:
            check_one_seat(rollout, "an agent loop of veRL's")
        if shows_media(rollout):
            rows = training_rows(rollout, need=need, seat=seat)
            await _add_pictures(outputs, rollout, rows, playing.directory, policy)
        if len(outputs) == 1 or takes_several:
            return outputs
        refused = RefusalReason(
            Refusal.FORKED, f"it makes {len(outputs)} rows, and veRL's V0 takes one", rollout.rollout_id
        )
    except NotTrainable as error:
        if takes_several:
            raise
        refused = error.refused
    why = rollout.faults[-1].message if rollout.faults else refused.reason
    logger.warning("rollout %s is masked (%s): %s", rollout.rollout_id, refused.refusal.value, why)
    pad = getattr(policy.tokenizer, "pad_token_id", None) or 0
    return [masked_output(rollout, refused, pad_token_id=pad, reward=_comparable(rollout, seat), **asked)]


async def _add_pictures(
    outputs: Sequence[Output], rollout: Rollout, rows: Sequence[TrainingRow], directory: Path, policy: VerlPolicy
) -> None:
    for output, row in zip(outputs, rows, strict=True):
        pictures = await pictures_of(rollout, row.turns[-1], directory, policy.pictures)
        output["multi_modal_data"] = {"images": pictures} if pictures else None


def _comparable(rollout: Rollout, seat: str | None) -> float | None:
    """The reward that a masked rollout is compared by in its group; None if it has no trainable one."""
    if why_refused(rollout, "text") is not None:
        return None
    trained = rollout.policy_seats if seat is None else (seat,)
    return rollout.reward_of(trained[0]) if len(trained) == 1 else None


@cache
def token_output() -> Any:
    """Create a subclass of veRL's `AgentLoopOutput` that takes rewards by token."""
    agent_loop: Any = system_module("verl.experimental.agent_loop.agent_loop")
    torch: Any = import_module("torch")

    class TokenRewardOutput(agent_loop.AgentLoopOutput):
        """An output of an agent loop; V1 reads it by `as_dict`."""

        token_rewards: list[float] | None = None

        def as_dict(self) -> dict[str, Any]:
            """The output's fields, with `token_rewards` as `rm_scores`, if there are any."""
            fields = agent_loop.AgentLoopOutput.as_dict(self)
            placed = fields.pop("token_rewards", None)
            if placed is not None:
                fields["rm_scores"] = torch.tensor(placed, dtype=torch.float32)
            return fields

    return TokenRewardOutput


def agent_loop_class() -> Any:
    """Create `HubAgentLoop` as a subclass of veRL's `AgentLoopBase`.

    Raises:
        ImportError: veRL, or a dependency of its agent loops, is not installed.
    """
    agent_loop: Any = system_module("verl.experimental.agent_loop.agent_loop")

    class HubAgentLoop(agent_loop.AgentLoopBase):
        """Plays the task of a row in the hub, with veRL's own engine."""

        def __init__(
            self,
            *args: Any,
            run: Any = None,
            components: Sequence[str] = (),
            groups: Any = None,
            rewards: RewardPlace = "verdict",
            **others: Any,
        ) -> None:
            no_groups(groups)
            agent_loop.AgentLoopBase.__init__(self, *args, **others)
            self._hub = LoopSettings(self.config, run=run, components=components, rewards=rewards)

        async def run(self, sampling_params: dict[str, Any], **fields: Any) -> Any:
            """The row's `AgentLoopOutput`, or a list of them for the V1 trainer."""
            policy = self._hub.policy(self.server_manager, self.tokenizer, self.processor)
            if self._hub.rewards == "turns" and "session_id" not in fields:
                raise ConfigError(
                    "rewards = 'turns': veRL's own workers of trainer.use_v1=False put one reward on the last token; "
                    "let rollout.agent.agent_loop_manager_class be rollouthub.trainers.verl.HubAgentLoopManager"
                )
            outputs = await played(self._hub, policy, sampling_params, fields)
            made = [token_output()(**output) for output in outputs]
            return made if "session_id" in fields else made[0]

    HubAgentLoop.__module__, HubAgentLoop.__qualname__ = "rollouthub.trainers.verl", "HubAgentLoop"
    return HubAgentLoop
