"""The agent loop: veRL asks for one row's rollout, and the hub plays it with veRL's own engine."""

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, training_rows, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.verl.outputs import Output, loop_outputs, masked_output
from rollouthub.trainers.verl.prompt_pictures import PromptPictures, pictures_of, shows_media
from rollouthub.trainers.verl.row_workers import VerlPolicy, playing_with, task_of
from rollouthub.trainers.verl.verl_engine import sampling_of
from rollouthub.trainers.verl.whole_groups import no_groups
from rollouthub.trainers.workers.worker_settings import TrainingSettings, read_settings, settings_of

logger = logging.getLogger(__name__)


class LoopSettings:
    """What an entry of `agent_loop_config_path` says of the hub, and what veRL's own configuration adds."""

    def __init__(self, config: Any, *, run: Any, components: Sequence[str] = ()) -> None:
        """`config` is veRL's; `run` are a run's settings, as a mapping or a TOML file's path.

        Raises:
            ConfigError: a setting does not hold.
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
        """Whose tokens are learnt from: what veRL's own loops are handed. Without a processor it reads words alone."""
        return VerlPolicy(
            client,
            tokenizer,
            self._name,
            self.prompt_length,
            self.response_length,
            self.hub.training.tool_parser,
            self._template,
            None if processor is None else PromptPictures(processor, self._processor),
        )


def plain(value: Any) -> dict[str, Any]:
    """A mapping of OmegaConf's, or of anyone's, as a dict."""
    if isinstance(value, dict):
        return {str(key): each for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  # JSON
    if not isinstance(value, Mapping) and not hasattr(value, "items"):
        raise ConfigError(f"verl's `run` is {value!r:.100}; give a run's settings as a mapping, or a file's path")
    return import_module("omegaconf").OmegaConf.to_container(value, resolve=True)


async def played(
    settings: LoopSettings, policy: VerlPolicy, parameters: Mapping[str, Any], fields: Mapping[str, Any]
) -> list[Output]:
    """Play a row's task; the rows of what came of it.

    veRL's V1 trainer names a session for each sample: it takes several rows, and goes without a sample that fails. The
    one before takes one row and no failure, so that there a masked row stands for what must not be learnt from.

    Raises:
        NotTrainable: to V1: it is not to be learnt from.
        ConfigError: the row names no task, or the rollout shows pictures that nobody takes.
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
    """The class itself, over veRL's `AgentLoopBase`.

    Raises:
        ImportError: veRL, or something that its agent loops need, is not installed.
    """
    agent_loop: Any = system_module("verl.experimental.agent_loop.agent_loop")

    class HubAgentLoop(agent_loop.AgentLoopBase):
        """Plays the task that a row names, in the hub, with veRL's own engine."""

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
