"""Checkpoints: weights in Hugging Face's format, and beside them what a learner needs to go on."""

import random
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from rollouthub.errors import UsageError, describe
from rollouthub.trainers.learn.pytorch import torch
from rollouthub.trainers.learn.ranks import Ranks
from rollouthub.trainers.policy.weight_files import read_weights

STATE = "learner.pt"
"""The file with the optimizer's state, the counts and the random state, and a LoRA model's own weights."""


COUNTS = ("version", "updates")
"""What a learner counts."""


def write_weights(folder: Path, model: Any, tokenizer: Any, ranks: Ranks) -> None:
    """Write a model's weights, gathered from all ranks, and its tokenizer; every rank must call it."""
    weights = _whole_weights(model)
    if ranks.is_leader:
        _write(folder, model, weights, tokenizer)


def write_checkpoint(
    folder: Path, model: Any, optimizer: Any, tokenizer: Any, ranks: Ranks, counts: Mapping[str, int]
) -> None:
    """Write a checkpoint to a folder beside its own, and move it into place; every rank must call it."""
    state = import_module("torch.distributed.checkpoint.state_dict")
    options = state.StateDictOptions(full_state_dict=True, cpu_offload=True)
    moments = state.get_optimizer_state_dict(model, optimizer, options=options)
    weights = _whole_weights(model)
    if not ranks.is_leader:
        return
    draft = folder.with_name("draft-" + folder.name)  # a name that no search for checkpoints finds
    shutil.rmtree(draft, ignore_errors=True)
    _write(draft, model, weights, tokenizer)
    learnt = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    is_lora = any("lora_" in name for name in learnt)
    kept = {
        "counts": dict(counts),
        "optimizer": moments,
        "adapter": {name: weights[name] for name in learnt} if is_lora else None,
        "random": {"python": random.getstate(), "torch": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()},
    }
    torch.save(kept, draft / STATE)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def read_state(folder: Path, model: Any, optimizer: Any) -> dict[str, int]:
    """Load a checkpoint into a model and its optimizer; returns its counts.

    Raises:
        UsageError: the folder has no checkpoint of a learner of this kind.
    """
    if not (folder / STATE).is_file():
        raise UsageError(f"{folder} has no {STATE}: it is no checkpoint of a learner")
    state = import_module("torch.distributed.checkpoint.state_dict")
    options = state.StateDictOptions(full_state_dict=True, cpu_offload=True, strict=False)
    kept = _read_state_file(folder / STATE)
    weights = kept["adapter"] or read_weights(folder)
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if others := [name for name, tensor in weights.items() if shapes.get(name) != tensor.shape]:
        raise UsageError(
            f"{folder} is of another kind of model: it has {others[0]}, of another shape or not there here"
        )
    state.set_model_state_dict(model, weights, options=options)
    state.set_optimizer_state_dict(model, optimizer, kept["optimizer"], options=options)
    try:
        random.setstate(kept["random"]["python"])
        torch.set_rng_state(kept["random"]["torch"])
        if kept["random"]["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(kept["random"]["cuda"][: torch.cuda.device_count()])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{folder / STATE} is damaged: {describe(error)}") from error
    return kept["counts"]


def _whole_weights(model: Any) -> dict[str, Any]:
    """The full weights on the leader's CPU; a collective where the model is sharded."""
    state = import_module("torch.distributed.checkpoint.state_dict")
    return state.get_model_state_dict(model, options=state.StateDictOptions(full_state_dict=True, cpu_offload=True))


def _write(folder: Path, model: Any, weights: dict[str, Any], tokenizer: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any("lora_" in name for name in weights):
        base = model.get_base_model()
        base.save_pretrained(folder, state_dict=_merged(base))
    else:
        model.save_pretrained(folder, state_dict=weights)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def _merged(base: Any) -> dict[str, Any]:
    """The weights of a model with LoRA layers, each layer's adapter added to a copy of its weight: merging in place and
    back would round the model's own at every call.
    """
    found = {name: tensor for name, tensor in base.state_dict().items() if "lora_" not in name}
    for name, layer in base.named_modules():
        if f"{name}.base_layer.weight" in found:
            with torch.no_grad():
                deltas = [layer.get_delta_weight(adapter) for adapter in layer.active_adapters]
                found[f"{name}.base_layer.weight"] = sum(deltas, layer.base_layer.weight)
    return {name.replace(".base_layer", ""): tensor.detach().cpu() for name, tensor in found.items()}


def _read_state_file(file: Path) -> dict[str, Any]:
    """What `write_checkpoint` kept. Tensors and plain values alone are read: a pickle may name any code to run."""
    try:
        kept: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of a pickle that asks for more, and of a file that is damaged in any way
        raise UsageError(f"{file} is no state of a learner, or damaged: {describe(error)}") from None
    if not isinstance(kept, dict) or set(cast(Any, kept)) != {"counts", "optimizer", "adapter", "random"}:
        raise UsageError(f"{file} is no state of a learner")
    counts: Any = cast(Any, kept)["counts"]
    if not isinstance(counts, dict) or not all(type(cast(Any, counts).get(name)) is int for name in COUNTS):
        raise UsageError(f"{file} is no state of a learner: its counts are none")
    return cast(dict[str, Any], kept)
