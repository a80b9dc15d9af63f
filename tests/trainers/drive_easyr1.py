"""Run with EasyR1's checkout first on the path: its reward manager, batch and advantages over the hub's verifier."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.trainers import easyr1
from rollouthub.trainers.stream import blocking_worker, rollout_worker
from tests.models.tokens.chatml import END, trained


def rows_of_tasks(folder: Path) -> list[dict[str, Any]]:
    """Two tasks of the hub, written and read back as EasyR1's data set reads them."""
    worker = rollout_worker(environments=("arithmetic",), model="mock/solver", directory=folder / "tasks")
    with blocking_worker(worker) as opened:
        tasks = opened.tasks(split="train")[:2]
    easyr1.write_prompts(easyr1.prompt_rows(tasks, "arithmetic", "train"), folder / "train.parquet")
    datasets: Any = import_module("datasets")
    return list(datasets.load_dataset("parquet", data_files=str(folder / "train.parquet"), split="train"))


def answer_to(row: dict[str, Any]) -> str:
    """The right one: the question is an expression."""
    expression = row["prompt"].partition("What is ")[2].partition("?")[0]
    return f"It is {eval(expression)}."


def main(folder: Path) -> None:
    numpy: Any = import_module("numpy")
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    reward: Any = import_module("verl.workers.reward.function")
    config: Any = import_module("verl.workers.reward.config").RewardConfig(
        reward_function=f"{easyr1.__file__}:compute_score", reward_function_kwargs={}
    )
    config.post_init()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    manager = reward.AutoRewardManager(config, tokenizer)
    assert (manager.reward_type, config.reward_function_name) == ("batch", "compute_score")

    rows = rows_of_tasks(folder)
    texts = [answer_to(rows[0]), "It is -1.", "It is -1.", answer_to(rows[1])]
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    width = max(map(len, ids))
    data = import_module("verl.protocol").DataProto.from_dict(
        tensors={
            "responses": torch.tensor([[*each, *[0] * (width - len(each))] for each in ids]),
            "response_mask": torch.tensor([[1] * len(each) + [0] * (width - len(each)) for each in ids]),
        },
        non_tensors={"ground_truth": numpy.array([rows[place // 2]["answer"] for place in range(4)], dtype=object)},
    )
    rewards, metrics = manager.compute_reward(data)
    assert rewards.sum(-1).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert [rewards[place, len(each) - 1].item() for place, each in enumerate(ids)] == [1.0, 0.0, 0.0, 1.0]
    assert metrics["accuracy"] == [1.0, 0.0, 0.0, 1.0]
    assert metrics["unscored"] == [0.0] * 4

    algos: Any = import_module("verl.trainer.core_algos")
    index = numpy.array(["a", "a", "b", "b"], dtype=object)
    advantages, _ = algos.compute_rloo_outcome_advantage(rewards, data.batch["response_mask"], index)
    assert [round(each, 5) for each in advantages[:, 0].tolist()] == [1.0, -1.0, -1.0, 1.0]
    sys.stdout.write("all is as it should be\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
