"""TRL's own `AsyncGRPOTrainer` learns from what the hub plays with a server, and brings its weights there.

On one GPU its transfer over NCCL cannot work, for NCCL wants a GPU for each process: the weights go through a folder.
"""

import os
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

import rollouthub
from rollouthub.models.credentials import Credentials
from rollouthub.trainers.stream import VllmControl
from rollouthub.trainers.trl import HubRolloutWorker
from tests.gpu.cells import Given, answer

BABBLING = Path(__file__).parent / "babbling.py"
SAMPLES, BATCH = 4, 8
STALENESS = 4


class FolderTransfer:
    """TRL's `WeightTransferProtocol` through a folder that the server loads."""

    def __init__(self, url: str, folder: Path) -> None:
        self._control, self._folder = VllmControl(url), folder
        self._like: Any = None
        self._version = 0
        self.seconds: list[float] = []
        """Of each transfer."""

    def open(self, like: Any) -> None:
        """Have the model whose configuration is written beside the weights."""
        self._like = like

    def init_weight_transfer(self) -> None:
        """Do nothing."""

    def pause(self) -> None:
        """Freeze what the server generates."""
        anyio.run(self._control.pause, "keep")

    def send_weights(self, iterator: Iterator[tuple[str, Any]]) -> None:
        """Write the weights, and have the server load them."""
        began = time.perf_counter()
        weights = {name: tensor.detach().cpu().clone() for name, tensor in iterator}
        self._like.save_pretrained(self._folder, state_dict=weights)
        anyio.run(self._control.reload_weights, str(self._folder))
        self._version += 1  # as TRL counts
        anyio.run(self._control.updated, self._version)
        self.seconds.append(time.perf_counter() - began)

    def resume(self) -> None:
        """Let the server generate again."""
        anyio.run(self._control.resume)

    def destroy(self) -> None:
        """Do nothing."""


def plain_tree_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    tree_kv_index: Any,
    tree_cu_seqlens_q: Any,
    tree_cu_seqlens_k: Any,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Any, None]:
    """What TRL's tree attention computes by a kernel, in plain torch: each segment of tokens sees its path's."""
    torch: Any = import_module("torch")
    attend: Any = import_module("torch.nn.functional").scaled_dot_product_attention
    query, key = query.to(value.dtype), key.to(value.dtype)  # under autocast
    key, value = key[:, :, tree_kv_index], value[:, :, tree_kv_index]
    begins, paths = tree_cu_seqlens_q.tolist(), tree_cu_seqlens_k.tolist()
    found: list[Any] = []
    for place in range(len(begins) - 1):
        asked = query[:, :, begins[place] : begins[place + 1]]
        seen = slice(paths[place], paths[place + 1])
        rows, columns = asked.shape[2], paths[place + 1] - paths[place]
        # A segment is the end of its path.
        mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril(columns - rows)
        found.append(attend(asked, key[:, :, seen], value[:, :, seen], attn_mask=mask, scale=scaling, enable_gqa=True))
    return torch.cat(found, 2).transpose(1, 2), None


def attention_of(is_cpu: bool) -> str:
    """Which attention TRL's model computes with: its own kernel where that can be had, else ours."""
    packing: Any = import_module("trl.experimental.async_grpo.packing")
    if not is_cpu:
        try:
            packing._flash_attn()
        except Exception as error:  # no such package, no network, no such kernel for this GPU
            why = f"plain torch, as TRL's kernel cannot be had ({type(error).__name__})"
        else:
            return "TRL's own kernel"
    else:
        why = "plain torch, as TRL's kernel needs a GPU"
    interface: Any = import_module("transformers").AttentionInterface
    interface.register(packing.TREE_ATTENTION, plain_tree_attention)
    return why


def _no_speed(*_: object) -> None:
    return None


def learn(given: Given) -> dict[str, Any]:
    """Train for a few steps."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    theirs: Any = import_module("trl.experimental.async_grpo")
    transformers: Any = import_module("transformers")
    torch: Any = import_module("torch")
    folder, is_cpu = Path(given["directory"]), bool(given["is_cpu"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(given["folder"])
    transfer = FolderTransfer(given["url"], folder / "weights")
    worker = HubRolloutWorker(
        lambda: rollouthub.stream_rollouts(
            environments=(str(BABBLING),),
            model=f"hosted_vllm/{given['name']}",
            base_url=given["url"],
            sampling=given["sampling"],
            repeats=SAMPLES,
            batch=BATCH // SAMPLES,
            epochs=None,
            max_staleness=STALENESS,
            seed=0,
            directory=folder / "rollouts",
            credentials=Credentials({}),
        )
    )
    if is_cpu:  # it looks the GPU's speed up, for one of its figures
        speeds: Any = import_module("trl.experimental.async_grpo.async_grpo_trainer")
        speeds.get_peak_flops_per_device = _no_speed
    trainer = theirs.AsyncGRPOTrainer(
        given["folder"],
        args=theirs.AsyncGRPOConfig(
            output_dir=str(folder / "trl"),
            max_steps=given["steps"],
            per_device_train_batch_size=BATCH,
            num_generations=SAMPLES,
            max_staleness=STALENESS,
            token_budget=2048,
            learning_rate=1e-3,
            save_strategy="no",
            report_to=[],
            use_cpu=is_cpu,
            bf16=not is_cpu,
            gradient_checkpointing=False,
            disable_tqdm=True,
            vllm_server_base_url=given["url"].removesuffix("/v1"),
        ),
        processing_class=tokenizer,
        rollout_worker=worker,
        weight_transfer=transfer,
        train_dataset=import_module("datasets").Dataset.from_dict({"prompt": ["as the hub has them"] * BATCH}),
    )
    how = attention_of(is_cpu)
    transfer.open(trainer.model)
    before = {name: each.detach().clone() for name, each in trainer.model.named_parameters()}
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    moved = max(float((each.detach() - before[name]).abs().max()) for name, each in trainer.model.named_parameters())
    logged = [step for step in trainer.state.log_history if "ratio" in step]
    return {
        "attention": how,
        "steps": trainer.state.global_step,
        "seconds": seconds,
        "transfers": len(transfer.seconds),
        "transfer_seconds": sum(transfer.seconds) / max(len(transfer.seconds), 1),
        "moved": moved,
        "is_finite": all(bool(torch.isfinite(each).all()) for each in trainer.model.parameters()),
        "ratio": logged[0]["ratio"] if logged else float("nan"),
        "rewards": [step["reward"] for step in logged if "reward" in step],
    }


if __name__ == "__main__":
    answer(learn)
