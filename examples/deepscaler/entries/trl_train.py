"""TRL's `GRPOTrainer` on the hub's problems. Arguments are `GRPOConfig`'s, and those of `Played`.

With `--vllm_mode server` the hub plays every rollout against that vLLM, into which TRL moves its weights before. With
`--vllm_mode colocate` TRL generates in its own process, and the hub's verifier scores.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.export import TaskReference
from rollouthub.trainers.blocking_scorer import BlockingScorer, blocking_scorer
from rollouthub.trainers.stream import blocking_worker, rank_directory, rollout_worker
from rollouthub.trainers.trl import hub_reward, rollout_func
from rollouthub.trainers.trl.prompts import as_dataset, task_row
from rollouthub.trainers.workers.worker_settings import read_settings

trl: Any = import_module("trl")
utilities: Any = import_module("transformers.trainer_utils")


@dataclass
class Played:
    """What is trained, and on what."""

    policy: str = field(metadata={"help": "Hugging Face name or folder of the weights to start from."})
    play: str = field(metadata={"help": "TOML file of what the hub plays: the second environment validates."})
    train_split: str | None = field(default=None, metadata={"help": "By default the environment's own."})
    validation_split: str | None = field(default=None, metadata={"help": "By default the environment's own."})


class Trainer(trl.GRPOTrainer):
    """TRL's trainer; log-probabilities of an evaluation's rows are computed a micro-batch at a time, too."""

    def _get_per_token_logps_and_entropies(self, *given: Any, batch_size: int | None = None, **rest: Any) -> Any:
        trainer: Any = super()
        rows = self.args.per_device_train_batch_size
        return trainer._get_per_token_logps_and_entropies(*given, batch_size=rows, **rest)


def read_options(given: Sequence[str] | None = None) -> tuple[Any, Played]:
    """TRL's configuration and what is played, by TRL's parser."""
    args, played = trl.TrlParser((trl.GRPOConfig, Played)).parse_args_and_config(given)
    return args, played


def main() -> None:
    """Train, from the last checkpoint if there is one."""
    args, played = read_options()
    settings = read_settings(played.play)
    with ExitStack() as stack:
        scorer = stack.enter_context(blocking_scorer(request=settings.request, model="mock/solver"))
        splits = (played.train_split, played.validation_split)
        sets = [dataset(scorer, *each) for each in zip(scorer.environments, splits, strict=True)]
        plays: dict[str, Any] = {"reward_funcs": verdict(scorer)}
        if args.vllm_mode == "server":
            directory = rank_directory(Path(settings.training.directory) / "trl")
            playing = rollout_worker(
                settings.request,
                directory=directory,
                resume=(directory / "run.db").exists(),
                model="hosted_vllm/policy",
                base_url=f"http://{args.vllm_server_host}:{args.vllm_server_port}/v1",
            )
            worker = stack.enter_context(blocking_worker(playing))
            plays = {"reward_funcs": hub_reward, "rollout_func": rollout_func(worker)}
        trainer: Any = Trainer(model=played.policy, args=args, train_dataset=sets[0], eval_dataset=sets[1], **plays)
        done = Path(args.output_dir)
        last = utilities.get_last_checkpoint(str(done)) if done.is_dir() else None
        trainer.train(resume_from_checkpoint=last)


def dataset(scorer: BlockingScorer, environment: str, split: str | None) -> Any:
    """The problems of an environment, as TRL takes them."""
    split = split or scorer.split_of(environment)
    tasks = scorer.tasks(environment, split)
    return as_dataset([task_row(TaskReference(environment, split, task.id), task) for task in tasks])


def verdict(scorer: BlockingScorer) -> Callable[..., list[float | None]]:
    """A reward function that asks the verifier; None, which TRL leaves out, for an answer that it could not score."""

    def rollouthub(completions: Sequence[Any], task: Sequence[str], **rest: Any) -> list[float | None]:
        asked = [(TaskReference.parse(name), said) for name, said in zip(task, completions, strict=True)]
        return [score and score.reward for score in scorer.score_all(asked)]

    return rollouthub


if __name__ == "__main__":
    main()
