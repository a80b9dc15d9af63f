"""Training rows as Tinker's `Datum`s: each position predicts the next token."""

from collections.abc import Iterable
from typing import Any

from rollouthub.export import TrainingRow
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.systems import system_module


def datums_of(rows: Iterable[tuple[TrainingRow, float]], *, mask: bool = False) -> list[Any]:
    """Each row with its advantage, as `batch_rows` gives them, as a `Datum` for Tinker's losses with log-probabilities
    (`importance_sampling`, `ppo`, `cispo` …).

    Tokens that the policy did not sample have advantage 0. With `mask`, the `Datum` has the `mask` that the functions
    of tinker-cookbook read and remove before they send it; Tinker itself takes none.

    Raises:
        ConfigError: a rollout shows pictures.
        ModuleNotFoundError: Tinker is not installed.
    """
    tinker = system_module("tinker")
    made: list[Any] = []
    for row, advantage in rows:
        no_pictures([row.rollout])
        segment = row.segment
        token_ids, learnt = segment.token_ids.tolist(), segment.loss_mask.tolist()
        inputs = {
            "target_tokens": _tensor(tinker, token_ids[1:], "int64"),
            "logprobs": _tensor(tinker, segment.logprobs.tolist()[1:]),
            "advantages": _tensor(tinker, [advantage * each for each in learnt[1:]]),
        }
        if mask:
            inputs["mask"] = _tensor(tinker, learnt[1:])
        made.append(tinker.Datum(model_input=tinker.ModelInput.from_ints(token_ids[:-1]), loss_fn_inputs=inputs))
    return made


def _tensor(tinker: Any, values: list[int] | list[float], dtype: str = "float32") -> Any:
    return tinker.TensorData(data=values, dtype=dtype, shape=[len(values)])
