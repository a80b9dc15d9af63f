"""Teach a model to prefer the better of two answers of a finished run, by its verifier's rewards.

hub run arithmetic -m hosted_vllm/MODEL --repeats 8 -o runs/sums hub export runs/sums --to dpo --margin 0.5 -o dpo.jsonl
python examples/offline/dpo.py dpo.jsonl MODEL out              # needs `trl` and `torch`

A pair's prompt is the common beginning of both conversations, tool results included; TRL renders it and both endings
with the model's chat template. Tool results after that point are part of `chosen` and `rejected`, and of the loss.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any


def train(data: Path, model: str, out: Path, **settings: Any) -> Any:
    """Train, save the model in `out`, and return the trainer; `settings` go to `DPOConfig`."""
    # Neither has types, and the hub needs neither.
    datasets: Any = import_module("datasets")
    trl: Any = import_module("trl")
    kind = "parquet" if data.suffix == ".parquet" else "json"
    rows = datasets.load_dataset(kind, data_files=str(data), split="train")
    config = trl.DPOConfig(output_dir=str(out), report_to=[], save_strategy="no", **settings)
    trainer = trl.DPOTrainer(model, args=config, train_dataset=rows)
    trainer.train()
    trainer.save_model(str(out))
    return trainer


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description="Train a model on pairs of `hub export --to dpo`.")
    parser.add_argument("data", type=Path, help="dpo.jsonl or dpo.parquet")
    parser.add_argument("model", help="a folder, or a name on the Hugging Face hub")
    parser.add_argument("out", type=Path, help="the folder for what comes of it")
    parser.add_argument("--steps", type=int, default=-1, help="optimizer steps; three epochs by default")
    parser.add_argument("--batch", type=int, default=4, help="pairs a step")
    parser.add_argument("--lr", type=float, default=1e-6, help="the learning rate")
    parser.add_argument("--beta", type=float, default=0.1, help="how dear it is to leave the model it began as")
    parser.add_argument("--max-length", type=int, default=8192, help="tokens of a row; what is longer is cut")
    parser.add_argument("--cpu", action="store_true", help="stay off accelerators")
    asked = parser.parse_args()
    trainer = train(
        asked.data,
        asked.model,
        asked.out,
        max_steps=asked.steps,
        per_device_train_batch_size=asked.batch,
        learning_rate=asked.lr,
        beta=asked.beta,
        max_length=asked.max_length,
        use_cpu=asked.cpu,
        bf16=not asked.cpu,
        gradient_checkpointing=not asked.cpu,
        logging_steps=1,
    )
    logged = [entry for entry in trainer.state.log_history if "rewards/margins" in entry]
    first, last = logged[0]["rewards/margins"], logged[-1]["rewards/margins"]
    print(f"{len(logged)} steps, margin {first:.4f} to {last:.4f}; saved in {asked.out}")  # noqa: T201


if __name__ == "__main__":
    main()
