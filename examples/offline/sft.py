"""Fine-tune a model on the best conversations of a finished run.

hub run arithmetic -m hosted_vllm/TEACHER --repeats 4 -o runs/sums hub export runs/sums --to sft --passed --best 1 -o
sft.jsonl python examples/offline/sft.py sft.jsonl MODEL out              # needs `trl` and `torch`

With `--tokens` on the export the file holds the engine's own ids, and labels on what was sampled alone: then the model
must be the one that was sampled, or have its tokenizer, and no text is tokenised again. Without, TRL renders the
messages with the model's chat template, tools included; `--assistant-only` learns from its answers alone, where TRL
knows the template.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any


def train(data: Path, model: str, out: Path, *, assistant_only: bool = False, **settings: Any) -> Any:
    """Train, save the model in `out`, and return the trainer; `settings` go to `SFTConfig`."""
    # Neither has types, and the hub needs neither.
    datasets: Any = import_module("datasets")
    trl: Any = import_module("trl")
    kind = "parquet" if data.suffix == ".parquet" else "json"
    rows = datasets.load_dataset(kind, data_files=str(data), split="train")
    if not all(rows["token_exact"]) and "input_ids" in rows.column_names:
        raise SystemExit(f"{data} has rows whose token ids are not the engine's")
    config = trl.SFTConfig(
        output_dir=str(out), report_to=[], save_strategy="no", assistant_only_loss=assistant_only, **settings
    )
    trainer = trl.SFTTrainer(model, args=config, train_dataset=rows)
    trainer.train()
    trainer.save_model(str(out))
    return trainer


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description="Fine-tune a model on a data set of `hub export --to sft`.")
    parser.add_argument("data", type=Path, help="sft.jsonl or sft.parquet")
    parser.add_argument("model", help="a folder, or a name on the Hugging Face hub")
    parser.add_argument("out", type=Path, help="the folder for what comes of it")
    parser.add_argument("--steps", type=int, default=-1, help="optimizer steps; three epochs by default")
    parser.add_argument("--batch", type=int, default=8, help="rows a step")
    parser.add_argument("--lr", type=float, default=2e-5, help="the learning rate")
    parser.add_argument("--max-length", type=int, default=8192, help="tokens of a row; what is longer is cut")
    parser.add_argument("--assistant-only", action="store_true", help="learn from the assistant's messages alone")
    parser.add_argument("--cpu", action="store_true", help="stay off accelerators")
    asked = parser.parse_args()
    trainer = train(
        asked.data,
        asked.model,
        asked.out,
        assistant_only=asked.assistant_only,
        max_steps=asked.steps,
        per_device_train_batch_size=asked.batch,
        learning_rate=asked.lr,
        max_length=asked.max_length,
        use_cpu=asked.cpu,
        bf16=not asked.cpu,
        gradient_checkpointing=not asked.cpu,
        logging_steps=1,
    )
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}; saved in {asked.out}")  # noqa: T201


if __name__ == "__main__":
    main()
