"""Run with verl-agent's checkout first on the path: its loop over groups that are judged together, and rewards of
turns."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.trainers.verl_agent import HubEnvironmentManager
from rollouthub.trainers.workers.worker_settings import settings_of
from tests.models.tokens.chatml import CHATML, END, trained
from tests.trainers.drive_verl_agent import SETTINGS, Policy
from tests.trainers.rewarded import ranks
from tests.trainers.rewarded_episodes import RANKED, RETURNS, STEPS, WORLDS

SIZE = 3


class Giver(Policy):
    """Gives once and is done, but for the first place, which is done at once."""

    early = True

    def answer(self, text: str, place: int) -> str:
        if "What came of it:" in text or (self.early and place == 0):
            return "done"
        return '<tool_call>{"name": "give", "arguments": {"thing": "apple"}}</tool_call>'


def played(folder: Path, world: str, policy: Policy, size: int) -> Any:
    """The batch that verl-agent's own loop gathers from one group."""
    numpy: Any = import_module("numpy")
    torch: Any = import_module("torch")
    omegaconf: Any = import_module("omegaconf")
    loop: Any = import_module("agent_system.multi_turn_rollout")
    config = omegaconf.OmegaConf.create(SETTINGS)
    config.env.rollout.n = size
    prompts = import_module("verl").DataProto.from_dict(
        tensors={"input_ids": torch.zeros((1, 1), dtype=torch.int64)},
        non_tensors={
            "raw_prompt": numpy.array([[{"role": "user", "content": ""}]], dtype=object),
            "data_source": numpy.array(["rewarded"], dtype=object),
        },
    )
    settings = settings_of({"environments": [world], "training": {"directory": str(folder / "runs")}}, "here")
    collector = loop.TrajectoryCollector(config=config, tokenizer=policy.tokenizer)
    with HubEnvironmentManager(settings, max_steps=4, group_size=size, batch_size=1) as envs:
        return collector.multi_turn_loop(gen_batch=prompts, actor_rollout_wg=policy, envs=envs, is_train=True)


def main(folder: Path) -> None:
    transformers: Any = import_module("transformers")
    gigpo: Any = import_module("gigpo.core_gigpo")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    tokenizer.chat_template = CHATML
    policy = Giver(tokenizer)

    # The first member is over a step before the others, and waits for them without holding them up.
    data = played(folder, RANKED, policy, SIZE)
    others = data.non_tensor_batch
    first, second, third = ranks(SIZE)
    assert others["episode_rewards"].tolist() == [first, second, second, third, third]
    assert others["rewards"].tolist() == [first, 0.0, second, 0.0, third]
    assert gigpo.compute_step_discounted_returns(data, 1.0).tolist() == [first, second, second, third, third]
    assert others["success_rate"].tolist() == [1 / SIZE] * 5

    policy.early = False
    data = played(folder, f"{WORLDS}:Stepwise", policy, 2)
    others = data.non_tensor_batch
    assert others["rewards"].tolist() == [*STEPS, *STEPS]
    assert gigpo.compute_step_discounted_returns(data, 1.0).tolist() == [*RETURNS, *RETURNS]
    assert others["episode_rewards"].tolist() == [1.0] * 4, "the verdict, without what the turns earned"
    sys.stdout.write("all is as it should be\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
