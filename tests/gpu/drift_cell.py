"""Plays conversations with an engine, and compares what it says of its tokens with what the trainer's model says."""

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import rollouthub
from rollouthub.export.conversation import chat_message
from rollouthub.export.segment import sampled_ids, segments
from rollouthub.hosting.local.toolbox import LOOP_TOOLS
from rollouthub.models.tokens.hf_chat import template_tool
from rollouthub.rollout import Rollout
from rollouthub.store import open_run
from rollouthub.trainers.learn import Learner, open_policy
from rollouthub.trainers.learn.learn_row import LearnRow
from tests.gpu.cells import Given, answer
from tests.gpu.load_cell import TALKING

DTYPES = ("float32", "bfloat16")
"""What the trainer computes in; its weights are in 32 bits."""


async def drift(given: Given) -> dict[str, Any]:
    """Play, and compare."""
    directory = Path(given["directory"])
    await rollouthub.aevaluate(
        str(TALKING),
        f"hosted_vllm/{given['name']}",
        base_url=given["url"],
        limit=given["rollouts"],
        concurrency=given["rollouts"],
        sampling=given["sampling"],
        seed=0,
        directory=directory,
        track=(),
        progress=False,
    )
    tokenizer: Any = import_module("transformers").AutoTokenizer.from_pretrained(given["folder"])
    with open_run(directory) as run:
        rollouts = list(run.rollouts())
        tools = [
            template_tool(tool)
            for rollout in rollouts[:1]
            for tool in run.tools(rollout.tools_digest or "")
            if tool.name not in LOOP_TOOLS
        ]
    found: dict[str, Any] = {"rollouts": len(rollouts), **compared_ids(rollouts, tokenizer, tools)}
    rows = [
        LearnRow(list(row.token_ids), list(row.loss_mask), list(row.logprobs))
        for rollout in rollouts
        for row in segments(rollout)
    ]
    found |= {"tokens": sum(row.learnt for row in rows), "rows": len(rows)}
    for dtype in DTYPES:
        model, _ = open_policy(given["folder"], dtype=dtype, checkpointing=False)
        found[dtype] = apart(rows, Learner(model).logprobs(rows))
    return found


def compared_ids(rollouts: Sequence[Rollout], tokenizer: Any, tools: Sequence[Any]) -> dict[str, float]:
    """Percent of first prompts that the trainer's tokenizer writes with the engine's ids, and of answers whose sampled
    ids stand in the training rows as they were.
    """
    prompts, answers = list[bool](), list[bool]()
    for rollout in rollouts:
        first = rollout.turns[0]
        messages = [chat_message(message) for message in first.messages]
        ids = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, return_dict=False)
        prompts.append(list(first.prompt_token_ids or ()) == list(ids))
        rebuilt = sampled_ids(segments(rollout))
        answers += [rebuilt.get(turn.index) == turn.output_token_ids for turn in rollout.turns]
    return {"prompts": 100 * sum(prompts) / len(prompts), "answers": 100 * sum(answers) / len(answers)}


def apart(rows: Sequence[LearnRow], ours: Sequence[Sequence[float]]) -> dict[str, float]:
    """The differences between the engine's and the trainer's log-probabilities of sampled tokens."""
    differences = [
        abs(theirs - mine)
        for row, logprobs in zip(rows, ours, strict=True)
        for theirs, mine, is_sampled in zip(row.logprobs[1:], logprobs, row.mask[1:], strict=True)
        if is_sampled
    ]
    if not all(map(math.isfinite, differences)):
        return {"mean": math.inf, "most": math.inf}
    return {"mean": sum(differences) / len(differences), "most": max(differences)}


if __name__ == "__main__":
    answer(drift)
