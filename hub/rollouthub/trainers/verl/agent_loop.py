"""The agent loop: veRL requests a rollout for one row, and the hub plays it with veRL's own engine."""

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, training_rows, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.trainers.pictures.shown_pictures import shows_media
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.verl.outputs import Output, loop_outputs, masked_output
from rollouthub.trainers.verl.row_workers import VerlPolicy, playing_with, task_of
from rollouthub.trainers.verl.verl_engine import sampling_of
from rollouthub.trainers.verl.verl_pictures import VerlPictures, pictures_of
from rollouthub.trainers.verl.whole_groups import no_groups
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings, settings_of

logger = logging.getLogger(__name__)


class LoopSettings:
    """The settings in the hub's entry of `agent_loop_config_path`, with those of veRL's own configuration."""

    def __init__(self, config: Any, *, run: Any, components: Sequence[str] = ()) -> None:
        """`config` is veRL's configuration; `run` has a run's settings, as a mapping or a TOML file's path.

        Raises:
            ConfigError: a setting is invalid.
        """
        rollout = config.actor_rollout_ref.rollout
        self.hub: TrainingSettings = (
            read_settings(run) if run is None or isinstance(run, str) else settings_of(plain(run), "verl's `run`")
        )
        self.components = tuple(components)
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
    settings: LoopSettings, policy: VerlPolicy, parameters: Mapping[str, Any], fields: Mapping[str, Any]
) -> list[Output]:
    """Play a row's task. Returns the outputs of the rollout, one for each of its rows.

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
    rollout = await playing.play(task_of(fields), None if uid is None else str(uid), sampling_of(parameters))
    asked: dict[str, Any] = {
        "need": need,
        "components": settings.components,
        "prompt_length": settings.prompt_length,
        "response_length": settings.response_length,
    }
    try:
        outputs = loop_outputs(rollout, **asked)
        if shows_media(rollout):
            for output, row in zip(outputs, training_rows(rollout, need=need), strict=True):
                pictures = await pictures_of(rollout, row.turns[-1], playing.directory, policy.pictures)
                output["multi_modal_data"] = {"images": pictures} if pictures else None
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
    reward = rollout.reward if why_refused(rollout, "text") is None else None
    return [masked_output(rollout, refused, pad_token_id=pad, reward=reward, **asked)]


def agent_loop_class() -> Any:
    """Create `HubAgentLoop` as a subclass of veRL's `AgentLoopBase`.

    Raises:
        ImportError: veRL, or a dependency of its agent loops, is not installed.
    """
    agent_loop: Any = system_module("verl.experimental.agent_loop.agent_loop")

    class HubAgentLoop(agent_loop.AgentLoopBase):
        """Plays the task of a row in the hub, with veRL's own engine."""

        def __init__(
            self, *args: Any, run: Any = None, components: Sequence[str] = (), groups: Any = None, **others: Any
        ) -> None:
            no_groups(groups)
            agent_loop.AgentLoopBase.__init__(self, *args, **others)
            self._hub = LoopSettings(self.config, run=run, components=components)

        async def run(self, sampling_params: dict[str, Any], **fields: Any) -> Any:
            """The row's `AgentLoopOutput`, or a list of them for the V1 trainer."""
            policy = self._hub.policy(self.server_manager, self.tokenizer, self.processor)
            outputs = await played(self._hub, policy, sampling_params, fields)
            made = [agent_loop.AgentLoopOutput(**output) for output in outputs]
            return made if "session_id" in fields else made[0]

    HubAgentLoop.__module__, HubAgentLoop.__qualname__ = "rollouthub.trainers.verl", "HubAgentLoop"
    return HubAgentLoop
