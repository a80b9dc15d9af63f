"""veRL set up as its users do: a tiny model's folder, its whole configuration, the hub's data set."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rollouthub.trainers import verl as ours
from rollouthub.trainers.stream import blocking_worker, rollout_worker
from tests.models.tokens.chatml import CHATML, END, trained

System = Callable[[str], ModuleType]
PROMPT, RESPONSE = 1024, 512
WORLD = Path(__file__).parent / "stream" / "world.py"


def tiny_model(system: System, folder: Path) -> Path:
    """A model as veRL finds it: a tokenizer with a chat template, and the configuration of a tiny Qwen2."""
    transformers = system("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    config = transformers.Qwen2Config(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        architectures=["Qwen2ForCausalLM"],
    )
    config.save_pretrained(folder)
    return folder


def verl_config(
    system: System,
    folder: Path,
    weights: Path,
    /,
    *,
    groups: dict[str, Any] | None = None,
    entry: Mapping[str, Any] | None = None,
    **run: Any,
) -> Any:
    """veRL's whole default configuration, with the hub's agent loop in it; `entry` has further fields of its entry."""
    omegaconf, hydra = system("omegaconf"), system("hydra")
    loops = folder / "agents.yaml"
    settings: dict[str, Any] = {"environments": ["arithmetic"], "training": {"directory": str(folder / "runs")}, **run}
    target = "rollouthub.trainers.verl.HubAgentLoop"
    made: dict[str, Any] = {"name": "rollouthub", "_target_": target, "run": settings, **(entry or {})}
    if groups is not None:
        made["groups"] = groups
    omegaconf.OmegaConf.save(omegaconf.OmegaConf.create([made]), loops)
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        return hydra.compose(
            "ppo_trainer",
            overrides=[
                f"actor_rollout_ref.model.path={weights}",
                "actor_rollout_ref.rollout.name=vllm",
                f"actor_rollout_ref.rollout.prompt_length={PROMPT}",
                f"actor_rollout_ref.rollout.response_length={RESPONSE}",
                "actor_rollout_ref.rollout.calculate_log_probs=True",
                f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loops}",
                "actor_rollout_ref.rollout.agent.default_agent_loop=rollouthub",
            ],
        )


def rows_of_tasks(
    folder: Path, count: int, environment: str = "arithmetic", split: str = "train", **settings: Any
) -> list[dict[str, Any]]:
    """The hub's data set."""
    worker = rollout_worker(environments=(environment,), model="mock/solver", directory=folder / "tasks", **settings)
    with blocking_worker(worker) as opened:
        (name,), tasks = opened.environments, opened.tasks(split=split)[:count]
    return list(ours.prompt_rows(tasks, name, split))


def prompts_batch(system: System, rows: Sequence[dict[str, Any]], repeats: int) -> Any:
    """What veRL's trainer hands to its agent loops: rows of a data set, repeated, a uid for each group."""
    numpy, protocol = system("numpy"), system("verl.protocol")
    repeated = [row for row in rows for _ in range(repeats)]
    uids = [f"uid-{place // repeats}" for place in range(len(repeated))]

    def objects(values: Sequence[object]) -> Any:
        array = numpy.empty(len(values), dtype=object)
        array[:] = values
        return array

    columns = {name: objects([row[name] for row in repeated]) for name in rows[0] if name != "prompt"}
    columns |= {"uid": objects(uids), "raw_prompt": objects([row["prompt"] for row in repeated])}
    dummy = {"dummy_tensor": system("torch").zeros(len(repeated), 1)}  # as veRL's data set has it: no batch is empty
    meta = {"validate": False, "global_steps": 5}
    return protocol.DataProto.from_dict(tensors=dummy, non_tensors=columns, meta_info=meta)


async def run_loop(system: System, config: Any, client: Any, row: dict[str, Any], **fields: Any) -> Any:
    """One row's agent loop, made by hydra as veRL's workers make it."""
    agent_loop, hydra, omegaconf = (
        system("verl.experimental.agent_loop.agent_loop"),
        system("hydra"),
        system("omegaconf"),
    )
    model = system("verl.utils.config").omega_conf_to_dataclass(config.actor_rollout_ref.model)
    (entry,) = omegaconf.OmegaConf.load(config.actor_rollout_ref.rollout.agent.agent_loop_config_path)
    loop = hydra.utils.instantiate(
        config=entry,
        trainer_config=agent_loop.DictConfigWrap(config=config),
        server_manager=client,
        tokenizer=model.tokenizer,
        processor=None,
        dataset_cls=system("verl.utils.dataset.rl_dataset").RLHFDataset,
        data_config=agent_loop.DictConfigWrap(config.data),
        tools=agent_loop.ToolListWrap([]),
    )
    assert isinstance(loop, agent_loop.AgentLoopBase)
    return await loop.run({"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}, **row, **fields)
