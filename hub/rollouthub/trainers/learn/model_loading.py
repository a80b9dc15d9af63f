"""Opens a policy for the learner: a causal language model and its tokenizer, with LoRA or sharded where asked for."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.trainers.learn.pytorch import torch
from rollouthub.trainers.learn.ranks import Ranks


def open_policy(
    name: str | Path,
    *,
    ranks: Ranks | None = None,
    dtype: str = "bfloat16",
    lora: Mapping[str, Any] | None = None,
    checkpointing: bool = True,
    attention: str = "sdpa",
) -> tuple[Any, Any]:
    """A model and its tokenizer, from a folder or by name, on this rank's device.

    Weights and optimizer state are in 32 bits; `dtype` is what the passes compute in. `lora` holds settings of
    `peft.LoraConfig`, such as `{"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}`. `checkpointing` computes
    activations again in the backward pass. With several ranks the model is sharded layer by layer (FSDP2).

    Raises:
        ConfigError: the dtype is unknown, the model cannot be loaded, LoRA is asked of several ranks, or its settings
            are invalid.
    """
    ranks = ranks or Ranks()
    kind = getattr(torch, dtype, None)
    if dtype not in ("bfloat16", "float32"):
        raise ConfigError(f"dtype {dtype!r} is neither bfloat16 nor float32")
    if lora is not None and ranks.count > 1:
        raise ConfigError("LoRA is for one rank: start the learner without torchrun, or leave lora out")
    transformers: Any = import_module("transformers")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, attn_implementation=attention
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"the policy {str(name)!r} cannot be loaded: {error}") from error
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if lora is not None:
        model = _adapted(model, lora)
    return prepared(model, ranks, kind), tokenizer


def _adapted(model: Any, lora: Mapping[str, Any]) -> Any:
    if unsupported := sorted(name for name in ("use_dora", "modules_to_save") if lora.get(name)):
        raise ConfigError(f"lora: {', '.join(unsupported)} cannot be merged into the weights that engines load")
    peft: Any = import_module("peft")
    try:
        return peft.get_peft_model(model, peft.LoraConfig(**{"task_type": "CAUSAL_LM", **lora}))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"lora: {error}") from error


def prepared(model: Any, ranks: Ranks, kind: Any = None) -> Any:
    """A model on this rank's device, sharded if there are several; `kind` is the dtype its passes compute in."""
    kind = kind or torch.float32
    if ranks.count > 1:
        return _sharded(model, ranks, kind)
    model.to(ranks.device)
    if kind is not torch.float32:
        # A partial, because a copy of the model (the reference) must call its own method, not this model's.
        model.forward = partial(_cast, model.forward, ranks.device.type, kind)
    return model


def _cast(forward: Callable[..., Any], device: str, kind: Any, *given: Any, **named: Any) -> Any:
    with torch.autocast(device, kind):
        return forward(*given, **named)


def _sharded(model: Any, ranks: Ranks, kind: Any) -> Any:
    """Shard a model over all ranks: each decoder layer by itself, and the rest together."""
    fsdp: Any = import_module("torch.distributed.fsdp")
    mesh = import_module("torch.distributed.device_mesh").init_device_mesh(ranks.device.type, (ranks.count,))
    policy = fsdp.MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)
    blocks: set[str] = set(getattr(model, "_no_split_modules", None) or ())
    model.to(ranks.device)
    for module in list(model.modules()):
        if type(module).__name__ in blocks:
            fsdp.fully_shard(module, mesh=mesh, mp_policy=policy)
    return fsdp.fully_shard(model, mesh=mesh, mp_policy=policy)
