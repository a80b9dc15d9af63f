"""Pairs of `hub export --to dpo` in the form that LLaMA-Factory's loader takes.

hub export runs/sums --to dpo --margin 0.5 -o dpo.jsonl
python examples/offline/llama_factory.py dpo.jsonl out
llamafactory-cli train --stage dpo --dataset_dir out --dataset hub_dpo …

LLaMA-Factory wants a prompt of alternating turns that ends with a user's words or a tool's answer, one message as
`chosen` and one as `rejected`, and a tool call as a message of its own. So each pair keeps the first message in which
its two conversations differ; what followed it is left out, and words beside a tool call are, too.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = "hub_dpo"
BETWEEN_ANSWERS = "\n</tool_response>\n<tool_response>\n"
"""What LLaMA-Factory puts between the answers of tools that were called together."""
TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function_call",
    "system_tag": "system",
}
COLUMNS = {"messages": "conversations", "chosen": "chosen", "rejected": "rejected", "tools": "tools"}


def said(message: Mapping[str, Any]) -> dict[str, str]:
    """One message: its words, or its tool calls as JSON."""
    if calls := message.get("tool_calls"):
        return {
            "role": "function_call",
            "content": json.dumps([call["function"] for call in calls], ensure_ascii=False),
        }
    return {"role": message["role"], "content": message.get("content") or ""}


def turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Messages as alternating turns: what one side said in several is joined."""
    found: list[dict[str, str]] = []
    for message in map(said, messages):
        if found and found[-1]["role"] == message["role"] != "function_call":
            between = BETWEEN_ANSWERS if message["role"] == "tool" else "\n\n"
            found[-1]["content"] += between + message["content"]
        else:
            found.append(message)
    return found


def pair(row: Mapping[str, Any]) -> dict[str, Any] | str:
    """A row of `hub export --to dpo` as one of LLaMA-Factory's; or why it cannot be one."""
    asked = turns(row["prompt"])
    sides = [message["role"] in ("user", "tool") for message in asked if message["role"] != "system"]
    if any(isinstance(each.get("content"), list) for each in (*row["prompt"], row["chosen"][0], row["rejected"][0])):
        return "shows pictures"
    if sides != [place % 2 == 0 for place in range(len(sides))] or not sides or not sides[-1]:
        return "turns do not alternate"
    chosen, rejected = said(row["chosen"][0]), said(row["rejected"][0])
    if chosen == rejected:
        return "the conversations part after their first message"
    return {"conversations": asked, "chosen": chosen, "rejected": rejected, "tools": row.get("tools") or ""}


def main() -> None:
    """Write the pairs, and the `dataset_info.json` that describes them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="dpo.jsonl")
    parser.add_argument("out", type=Path, help="folder for LLaMA-Factory's --dataset_dir")
    options = parser.parse_args()
    try:
        with options.data.open(encoding="utf-8") as lines:
            made = [pair(json.loads(line)) for line in lines]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        parser.error(
            f"{options.data} is no file of `hub export --to dpo -o dpo.jsonl`: {type(error).__name__}: {error}"
        )
    rows = [row for row in made if not isinstance(row, str)]
    form = {"file_name": f"{NAME}.json", "formatting": "sharegpt", "ranking": True, "columns": COLUMNS, "tags": TAGS}
    described = {NAME: form}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{NAME}.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
    (options.out / "dataset_info.json").write_text(json.dumps(described, indent=2), encoding="utf-8")
    reasons = Counter(row for row in made if isinstance(row, str))
    left_out = "; left out: " + ", ".join(f"{count} ({why})" for why, count in reasons.items()) if reasons else ""
    sys.stdout.write(f"{len(rows)} of {len(made)} pairs written to {options.out}{left_out}\n")


if __name__ == "__main__":
    main()
