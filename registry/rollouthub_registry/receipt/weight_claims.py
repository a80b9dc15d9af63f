"""Computes the log-probabilities of recorded answers again with the weights of a folder: another model's differ."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rollouthub.messages import media_of
from rollouthub.rollout import BROKEN_OFF, Rollout, Turn
from rollouthub.store import RunReader
from rollouthub.text import one_line, plain_name
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import attempt_name, turn_model
from rollouthub_registry.receipt.model_files import ModelFolder

FITS, DIFFERS = 0.1, 0.5
"""Mean difference of an answer's log-probabilities, in nats, up to which precision explains it, and from which it is
another model.
"""
MOST_ANSWERS = 32
"""Answers that are computed again, drawn at random each time."""
_MOST_TOKENS = 32_768
_FEW_TOKENS = 4
"""An answer of fewer tokens says little of its model."""


@dataclass(frozen=True)
class _Answer:
    name: str
    prompt: list[int]
    output: list[int]
    logprobs: list[float]
    temperature: float


def logprob_claims(
    reader: RunReader, weights: ModelFolder, model: str, limit: int | None, note: Callable[[str], None]
) -> Iterator[Claim]:
    """Yield whether the weights of a folder give a model's recorded answers the log-probabilities that were recorded.

    Blocks while it computes, which takes a pass of the model for each answer.
    """
    chosen, count = _drawn(_answers(reader, model), limit or MOST_ANSWERS)
    if not chosen:
        said = f"no answer of {plain_name(model)} has the ids and log-probabilities to compute again"
        yield Claim("weights", "not_provable", said)
        return
    try:
        policy = _loaded(weights)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        said = f"log-probabilities were not computed again: the model cannot be loaded here ({one_line(str(error))})"
        yield Claim("weights", "not_provable", said)
        return
    fitting, between, differing = 0, Problems(), Problems()
    for number, answer in enumerate(chosen):
        note(f"log-probabilities again: {number:,} of {len(chosen):,}")
        try:
            difference = _difference(policy, answer)
        except (IndexError, RuntimeError, ValueError) as error:  # ids that the model has not
            differing.add(f"{answer.name}: its tokens are not the model's ({one_line(str(error), 80)})")
            continue
        said = f"{answer.name}: log-probabilities differ by {difference:.2f} on average"
        if difference <= FITS:
            fitting += 1
        elif difference < DIFFERS:
            between.add(said)
        else:
            differing.add(said)
    folder, of = plain_name(str(weights.path)), f"{counted(len(chosen), 'answer')} drawn from {count:,}"
    if differing:
        said = f"{counted(differing.count, 'answer')} of {of} are not of the weights in {folder}"
        yield differing.refutes("weights", said, len(chosen))
    if between:
        said = f"{counted(between.count, 'answer')} of {of} differ by more than rounding, and less than another model's"
        yield Claim("weights", "not_provable", said, len(chosen), tuple(between.examples))
    if fitting:
        said = f"the weights in {folder} give {fitting:,} of {of} the log-probabilities that are recorded"
        yield Claim("weights", "consistent", said, fitting)


def _drawn(answers: Iterable[_Answer], most: int) -> tuple[list[_Answer], int]:
    """Some of the answers by chance, all alike likely, and how many there are; only those drawn are held in memory."""
    chance, drawn, count = random.SystemRandom(), list[_Answer](), 0
    for answer in answers:
        count += 1
        if len(drawn) < most:
            drawn.append(answer)
        elif (place := chance.randrange(count)) < most:
            drawn[place] = answer
    return drawn, count


def _answers(reader: RunReader, model: str) -> Iterator[_Answer]:
    """The answers of a model that can be computed again: of its first weights, without pictures, not too long."""
    for rollout in reader.rollouts():
        for turn in rollout.turns:
            prompt, output, logprobs = turn.prompt_token_ids, turn.output_token_ids, turn.output_logprobs
            if prompt is None or output is None or logprobs is None or turn_model(rollout, turn) != model:
                continue
            if _is_computable(rollout, turn):
                temperature = turn.sampling.get("temperature")
                yield _Answer(
                    f"{attempt_name(rollout)}, turn {turn.index}",
                    prompt.tolist(),
                    output.tolist(),
                    logprobs.tolist(),
                    float(temperature) if isinstance(temperature, int | float) else 1.0,
                )


def _is_computable(rollout: Rollout, turn: Turn) -> bool:
    prompt, output = len(turn.prompt_token_ids or ()), len(turn.output_token_ids or ())
    has_media = any(True for other in rollout.turns for _ in media_of(other.messages))
    return (
        prompt > 0
        and _FEW_TOKENS <= output == len(turn.output_logprobs or ())
        and prompt + output <= _MOST_TOKENS
        and turn.finish_reason != BROKEN_OFF
        and not turn.version_span  # its weights are those of a training step
        and not has_media
    )


def _loaded(weights: ModelFolder) -> Any:
    """The model of a folder, from files that hold numbers alone; nothing is fetched, and no code of the folder is run.

    Raises:
        ImportError: the packages are missing.
        OSError: the folder's files cannot be read as a model.
    """
    torch, transformers = import_module("torch"), import_module("transformers")
    made: Any = transformers.AutoModelForCausalLM.from_pretrained(
        weights.path, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )
    return made.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _difference(policy: Any, answer: _Answer) -> float:
    """Mean absolute difference of an answer's log-probabilities in nats; servers report them before or after the
    temperature, so the smaller one counts.
    """
    torch: Any = import_module("torch")
    recorded = torch.tensor(answer.logprobs, device=policy.device)
    with torch.no_grad():
        ids = torch.tensor([answer.prompt + answer.output], device=policy.device)
        size = policy.get_input_embeddings().num_embeddings
        if int(ids.max()) >= size or int(ids.min()) < 0:
            raise ValueError(f"token {int(ids.max()):,} of {size:,}")
        logits = policy(ids).logits[0, len(answer.prompt) - 1 : -1].float()
        said = ids[0, len(answer.prompt) :, None]
        temperatures: Sequence[float] = (1.0, answer.temperature) if answer.temperature > 0 else (1.0,)
        return min(
            float(((logits / each).log_softmax(-1).gather(-1, said)[:, 0] - recorded).abs().mean())
            for each in temperatures
        )
