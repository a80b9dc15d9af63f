"""Run with verl-agent's checkout first on the path: its rollout loop over the hub, GiGPO's advantages of the rows."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.trainers.verl_agent import make_envs
from tests.models.tokens.chatml import CHATML, END, trained

PROMPT, RESPONSE = 1024, 96
SETTINGS: dict[str, Any] = {
    "data": {
        "max_prompt_length": PROMPT,
        "max_response_length": RESPONSE,
        "truncation": "error",
        "return_raw_chat": False,
        "train_batch_size": 2,
        "val_batch_size": 1,
    },
    "env": {"env_name": "rollouthub/arithmetic", "max_steps": 4, "history_length": 2, "rollout": {"n": 2}, "seed": 0},
    "algorithm": {"filter_groups": {"enable": False}},
}


class Policy:
    """Stands where verl-agent's worker group does: reads prompts of ids, and answers every second episode wrong."""

    world_size = 1

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.prompts: list[str] = []

    def generate_sequences(self, batch: Any) -> Any:
        torch: Any = import_module("torch")
        protocol: Any = import_module("verl.protocol")
        prompts, rows = batch.batch["input_ids"], list[list[int]]()
        for place, ids in enumerate(prompts):
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
            self.prompts.append(text)
            rows.append(self.tokenizer.encode(self.answer(text, place), add_special_tokens=False))
        responses = torch.tensor([[*row, *[self.tokenizer.pad_token_id] * (RESPONSE - len(row))] for row in rows])
        written = torch.tensor([[1] * len(row) + [0] * (RESPONSE - len(row)) for row in rows])
        attention = torch.cat([batch.batch["attention_mask"], written], dim=1)
        tensors = {
            "prompts": prompts,
            "responses": responses,
            "input_ids": torch.cat([prompts, responses], dim=1),
            "attention_mask": attention,
            "position_ids": torch.clip(torch.cumsum(attention, dim=1) - 1, min=0),
        }
        return protocol.DataProto.from_dict(tensors=tensors)

    def answer(self, text: str, place: int) -> str:
        """A call first, then what it said; the odd places add one."""
        seen = re.search(r"What came of it:\n(-?\d+)", text)
        if seen is not None:
            return f"It is {int(seen[1]) + place % 2}."
        question = re.search(r"What is (.+?)\?", text)
        assert question is not None, text
        return f'<tool_call>{{"name": "calculate", "arguments": {{"expression": "{question[1]}"}}}}</tool_call>'


def main(folder: Path) -> None:
    numpy: Any = import_module("numpy")
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    omegaconf: Any = import_module("omegaconf")
    loop: Any = import_module("agent_system.multi_turn_rollout")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    tokenizer.chat_template = CHATML
    config = omegaconf.OmegaConf.create(SETTINGS)
    config.env.rollouthub = {"training": {"directory": str(folder / "runs")}}
    envs, val_envs = make_envs(config)
    prompts = import_module("verl").DataProto.from_dict(
        tensors={"input_ids": torch.zeros((2, 1), dtype=torch.int64)},
        non_tensors={
            "raw_prompt": numpy.array([[{"role": "user", "content": ""}]] * 2, dtype=object),
            "data_source": numpy.array(["arithmetic"] * 2, dtype=object),
        },
    )
    policy = Policy(tokenizer)
    collector = loop.TrajectoryCollector(config=config, tokenizer=tokenizer)
    with envs, val_envs:
        data = collector.multi_turn_loop(gen_batch=prompts, actor_rollout_wg=policy, envs=envs, is_train=True)
        rollouts = envs.rollouts
    assert len(data) == 8, "four episodes of two steps"
    others = data.non_tensor_batch
    assert others["episode_rewards"].tolist() == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert [each.reward for each in rollouts if each is not None] == [1.0, 0.0, 1.0, 0.0]
    assert others["tool_callings"].tolist() == [1.0] * 8
    assert others["is_action_valid"].tolist() == [True] * 8
    assert len(set(others["uid"])) == 2
    assert len(set(others["traj_uid"])) == 4
    assert others["success_rate"].tolist() == [0.5] * 8
    told = [tokenizer.decode(row, skip_special_tokens=True) for row in data.batch["responses"]]
    spoken = [turn.response for each in rollouts if each is not None for turn in each.turns]
    assert [text.strip() for text in told[1::2]] == [message.text for message in spoken[1::2]]

    scorer = import_module("agent_system.reward_manager").EpisodeRewardManager(tokenizer, 0, False)
    rewards = scorer(data)
    assert rewards.sum(-1).tolist() == others["episode_rewards"].tolist()
    gigpo: Any = import_module("gigpo.core_gigpo")
    steps = gigpo.compute_step_discounted_returns(data, 0.5)
    assert steps.tolist() == [0.5, 1.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0]
    mask = data.batch["attention_mask"][:, PROMPT:]
    advantages, _ = gigpo.compute_gigpo_outcome_advantage(
        rewards, steps, mask, others["anchor_obs"], others["uid"], others["traj_uid"]
    )
    # Episodes of a group begin at one anchor, see one result, and part by what they answer: ±1/2 of the episode, and
    # of the step ±1/4 at the first and ±1/2 at the second.
    assert [round(each, 4) for each in advantages[:, 0].tolist()] == [0.75, 1.0, -0.75, -1.0] * 2
    sys.stdout.write("all is as it should be\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
