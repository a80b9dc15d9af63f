"""Training rows as prime-rl's `TrainingSample`s.

Read at 559b44772: `src/prime_rl/transports/rollouts/types.py`, `src/prime_rl/trainer/batch.py`.
"""

from collections.abc import Iterable
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import TrainingRow
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.systems import system_module


def samples_of(rows: Iterable[tuple[TrainingRow, float]], *, temperature: float = 1.0) -> list[Any]:
    """Each row with its advantage, as `batch_rows` gives them, as a `TrainingSample`; `prepare_batch` of prime-rl packs
    them.

    prime-rl's trainer divides its logits by the temperature of each token; `temperature` is that of turns whose record
    has none, where the server's default was sampled with.

    Raises:
        ConfigError: a rollout shows pictures, or was sampled at temperature 0, which has no log-probabilities.
        ModuleNotFoundError: prime-rl is not installed.
    """
    made = system_module("prime_rl.transports.rollouts").TrainingSample
    samples: list[Any] = []
    for row, advantage in rows:
        no_pictures([row.rollout])
        segment = row.segment
        learnt = segment.loss_mask.tolist()
        samples.append(
            made(
                token_ids=segment.token_ids.tolist(),
                mask=[bool(each) for each in learnt],
                logprobs=segment.logprobs.tolist(),
                temperatures=_temperatures(row, temperature),
                env_name=row.rollout.environment.name,
                advantages=[advantage * each for each in learnt],
            )
        )
    return samples


def _temperatures(row: TrainingRow, default: float) -> list[float]:
    """For each token the temperature at which the next one was sampled: prime-rl divides the logits at a token, which
    predict the next one, by the token's temperature [tokens].
    """
    of_turn = {-1: default}
    for turn in row.turns:
        asked = row.rollout.turns[turn].sampling.get("temperature")
        of_turn[turn] = float(asked) if isinstance(asked, int | float) else default
    if (zero := next((turn for turn, value in of_turn.items() if value <= 0), None)) is not None:
        raise ConfigError(
            f"turn {zero} of rollout {row.rollout.rollout_id} was sampled at temperature {of_turn[zero]:g}, and "
            "prime-rl divides by it; sample at a temperature above 0"
        )
    return [of_turn[turn] for turn in (*row.segment.turn_ids.tolist()[1:], -1)]
