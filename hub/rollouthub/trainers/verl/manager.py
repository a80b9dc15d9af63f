"""The agent loop manager: the hub plays a whole batch in the trainer's process, over served replicas or veRL's
engine, and returns it as a `DataProto`.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import anyio

from rollouthub.errors import ConfigError, raise_first_error
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.verl.agent_loop import LoopSettings, played
from rollouthub.trainers.verl.agent_loop_entry import read_entry
from rollouthub.trainers.verl.outputs import Output
from rollouthub.trainers.verl.row_workers import VerlPolicy, task_of
from rollouthub.trainers.verl.whole_groups import no_groups


def _by_token(output: Output) -> list[float]:
    """An output's rewards by token [response]."""
    placed: list[float] | None = output["token_rewards"]
    return [0.0] * (len(output["response_ids"]) - 1) + [output["reward_score"]] if placed is None else placed


def balanced(outputs: Sequence[Output], uids: Sequence[str]) -> None:
    """Give unscored outputs, which are masked, the mean reward of their group, so that they do not change its
    baseline.
    """
    known: dict[str, list[float]] = {}
    for uid, output in zip(uids, outputs, strict=True):
        if output["extra_fields"]["reward_extra_info"]["is_scored"]:
            known.setdefault(uid, []).append(sum(_by_token(output)))
    for uid, output in zip(uids, outputs, strict=True):
        if not output["extra_fields"]["reward_extra_info"]["is_scored"]:
            scored = known.get(uid, [])
            output["reward_score"] = sum(scored) / len(scored) if scored else 0.0


def sampling_parameters(rollout: Any, *, is_validation: bool) -> dict[str, Any]:
    """The sampling parameters that veRL's own workers use."""
    source = rollout.val_kwargs if is_validation else rollout
    return {
        "temperature": source.temperature,
        "top_p": source.top_p,
        "top_k": source.top_k,
        "repetition_penalty": 1.0,
        "logprobs": rollout.calculate_log_probs,
    }


def padded(outputs: Sequence[Output], pad_token_id: int, prompt_length: int, response_length: int) -> dict[str, Any]:
    """The tensors [row, tokens] of a batch of outputs, padded as veRL's own workers do."""
    torch: Any = import_module("torch")
    count, width = len(outputs), prompt_length + response_length
    ids = torch.full((count, width), pad_token_id, dtype=torch.int64)
    attention = torch.zeros((count, width), dtype=torch.int64)
    mask = torch.zeros((count, response_length), dtype=torch.int64)
    scores = torch.zeros((count, response_length), dtype=torch.float32)
    sampled = torch.zeros((count, response_length), dtype=torch.float32)
    for place, output in enumerate(outputs):
        prompt, response = output["prompt_ids"], output["response_ids"]
        cut = slice(prompt_length - len(prompt), prompt_length + len(response))
        ids[place, cut] = torch.tensor([*prompt, *response])
        attention[place, cut] = 1
        mask[place, : len(response)] = torch.tensor(output["response_mask"])
        scores[place, : len(response)] = torch.tensor(_by_token(output))
        if output["response_logprobs"] is not None:
            sampled[place, : len(response)] = torch.tensor(output["response_logprobs"])
    tensors = {
        "prompts": ids[:, :prompt_length].clone(),
        "responses": ids[:, prompt_length:].clone(),
        "response_mask": mask,
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": torch.clip(torch.cumsum(attention, dim=1) - 1, min=0),
        "rm_scores": scores,
    }
    if all(output["response_logprobs"] is not None for output in outputs):
        tensors["rollout_log_probs"] = sampled
    return tensors


def batch_of(
    outputs: Sequence[Output], fields: Mapping[str, Any], pad_token_id: int, prompt_length: int, response_length: int
) -> Any:
    """The `DataProto` of outputs, in the order of the rows; `fields` are the rows' own columns."""
    numpy: Any = import_module("numpy")
    verl: Any = system_module("verl")

    def objects(values: Sequence[object]) -> Any:
        array = numpy.empty(len(values), dtype=object)
        array[:] = values
        return array

    others = dict(fields)
    others["__num_turns__"] = numpy.array([output["num_turns"] for output in outputs], dtype=numpy.int32)
    others["multi_modal_inputs"] = objects([{} for _ in outputs])
    infos = [output["extra_fields"]["reward_extra_info"] for output in outputs]
    for name in infos[0]:
        others[name] = numpy.array([info[name] for info in infos])
    for name in outputs[0]["extra_fields"]:
        others[name] = objects([output["extra_fields"][name] for output in outputs])
    return verl.DataProto.from_dict(
        tensors=padded(outputs, pad_token_id, prompt_length, response_length),
        non_tensors=others,
        meta_info={"reward_extra_keys": list(infos[0])},
    )


async def play_batch(
    settings: LoopSettings,
    policy: VerlPolicy,
    parameters: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
) -> list[Output]:
    """Play all rows at once. Returns one output for each row.

    Raises:
        UsageError, SupplyError, StoreError: as `played`.
    """
    found: list[Output | None] = [None] * len(rows)
    # The prompt's name and its task are what a group is known by; veRL repeats a prompt under one name.
    groups = [(str(row.get("uid")), task_of(row)) for row in rows]
    sizes = Counter(groups)

    async def play(place: int) -> None:
        row = {name: value for name, value in rows[place].items() if name != "session_id"}
        size = sizes[groups[place]] if "uid" in row else 1
        (found[place],) = await played(settings, policy, parameters, row, group_size=size)

    async with raise_first_error(), anyio.create_task_group() as tasks:
        for place in range(len(rows)):
            tasks.start_soon(play, place)
    return [output for output in found if output is not None]


def agent_loop_manager_class() -> Any:
    """Create `HubAgentLoopManager` as a subclass of veRL's `AgentLoopManager`, for
    `rollout.agent.agent_loop_manager_class`.

    Raises:
        ImportError: veRL, or a dependency of its agent loops, is not installed.
    """
    agent_loop: Any = system_module("verl.experimental.agent_loop.agent_loop")
    auto_await: Any = system_module("verl.utils.ray_utils").auto_await

    class HubAgentLoopManager(agent_loop.AgentLoopManager):
        """Plays whole batches in the hub. It starts no veRL workers."""

        agent_loop_workers_class = None

        async def _init_agent_loop_workers(self) -> None:
            entry = await read_entry(self.rollout_config.agent.agent_loop_config_path, self.llm_client)
            no_groups(entry.pop("groups", None))
            self._settings = LoopSettings(self.config, **entry)
            self._tokenizer: Any = system_module("verl.utils").hf_tokenizer(self.model_config.path)

        @auto_await
        async def generate_sequences(self, prompts: Any) -> Any:
            """Play a batch. Returns one row for each row of `prompts`, in their order.

            Raises:
                ConfigError: the trainer is veRL's V1, which does not wait for batches.
            """
            if not hasattr(prompts, "non_tensor_batch"):
                raise ConfigError(
                    "HubAgentLoopManager plays for trainers that wait for a batch, such as trainer.use_v1=False; V1 "
                    "takes rollouthub.trainers.verl.HubAgentLoopManagerTQ"
                )
            began = time.perf_counter()
            fields = prompts.non_tensor_batch
            rows = [{name: fields[name][place] for name in fields} for place in range(len(prompts))]
            is_validation = bool(prompts.meta_info.get("validate", False))
            parameters = sampling_parameters(self.rollout_config, is_validation=is_validation)
            policy = self._settings.policy(self.llm_client, self._tokenizer)
            outputs = await play_batch(self._settings, policy, parameters, rows)
            balanced(outputs, [str(row.get("uid", place)) for place, row in enumerate(rows)])
            pad = self._tokenizer.pad_token_id or 0
            data = batch_of(outputs, fields, pad, self._settings.prompt_length, self._settings.response_length)
            masked = sum(output["extra_fields"]["extras"]["refusal"] is not None for output in outputs)
            data.meta_info["timing"] = {
                "agent_loop/generate_sequences/max": time.perf_counter() - began,
                "agent_loop/masked": masked,
            }
            return data

    HubAgentLoopManager.__module__, HubAgentLoopManager.__qualname__ = "rollouthub.trainers.verl", "HubAgentLoopManager"
    return HubAgentLoopManager
