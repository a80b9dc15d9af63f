"""The objective by hand: each variant's loss and gradient, from their papers' formulas in plain Python."""

import math
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from rollouthub.trainers.learn import LearnSettings

pytestmark = pytest.mark.live
LOGS = [[-1.0, -0.4, -2.0], [-0.7, -3.0, 0.0]]
PROXIMAL = [[-1.3, -0.5, -1.2], [-0.7, -2.2, 0.0]]
SAMPLED = [[-1.2, -1.6, -1.1], [-0.9, -2.3, 0.0]]
REFERENCE = [[-1.1, -0.9, -1.5], [-0.2, -2.9, 0.0]]
MASK = [[1, 1, 1], [1, 1, 0]]
ADVANTAGES = [1.5, -0.5]
SHARES = [[0.2, 0.2, 0.2], [0.3, 0.3, 0.0]]


@pytest.fixture(autouse=True)
def torch(system: Callable[[str], ModuleType]) -> Any:
    """torch, or a skip."""
    return system("torch")


def found(torch: Any, **settings: Any) -> tuple[float, list[list[float]], dict[str, float]]:
    """Loss, its gradient by log-probability [row][token], and the sums."""
    objective: Any = import_module("rollouthub.trainers.learn.objective")
    logprobs = torch.tensor(LOGS, requires_grad=True)
    columns = objective.TokenColumns(
        logprobs=logprobs,
        proximal=torch.tensor(PROXIMAL),
        sampled=torch.tensor(SAMPLED),
        mask=torch.tensor(MASK, dtype=torch.float32),
        shares=torch.tensor(SHARES),
        advantages=torch.tensor(ADVANTAGES)[:, None],
        reference=torch.tensor(REFERENCE) if settings.get("kl") else None,
    )
    loss, sums = objective.loss_of(columns, LearnSettings(**settings))
    loss.backward()
    return float(loss.detach()), logprobs.grad.tolist(), {name: float(value) for name, value in sums.items()}


def places() -> list[tuple[int, int]]:
    return [(row, token) for row in range(2) for token in range(3) if MASK[row][token]]


def test_the_clipped_objective_with_truncated_importance_sampling(torch: Any) -> None:
    loss, gradient, sums = found(torch, clip_low=0.2, clip_high=0.28, importance_cap=1.5)
    expected, low, high = 0.0, 0, 0
    for row, token in places():
        ratio = math.exp(LOGS[row][token] - PROXIMAL[row][token])
        advantage, share = ADVANTAGES[row], SHARES[row][token]
        clipped = min(max(ratio, 0.8), 1.28)
        weight = min(math.exp(PROXIMAL[row][token] - SAMPLED[row][token]), 1.5)
        expected -= share * weight * min(ratio * advantage, clipped * advantage)
        is_clipped = clipped * advantage < ratio * advantage
        low, high = low + (ratio < 0.8 and advantage < 0), high + (ratio > 1.28 and advantage > 0)
        slope = 0.0 if is_clipped else -share * weight * ratio * advantage
        assert gradient[row][token] == pytest.approx(slope, abs=1e-6)
    assert loss == pytest.approx(expected, abs=1e-6)
    assert (sums["clipped_low"], sums["clipped_high"], sums["tokens"]) == (low, high, 5)
    assert high == 1


def test_a_sequence_ratio_is_the_geometric_mean_and_clips_the_whole_row(torch: Any) -> None:
    loss, gradient, _ = found(torch, ratio="sequence", clip_low=0.05, clip_high=0.05, importance_cap=None)
    expected = 0.0
    for row in range(2):
        tokens = [token for at, token in places() if at == row]
        logs = [LOGS[row][token] - PROXIMAL[row][token] for token in tokens]
        ratio, advantage = math.exp(sum(logs) / len(logs)), ADVANTAGES[row]
        clipped = min(max(ratio, 0.95), 1.05)
        is_clipped = clipped * advantage < ratio * advantage
        for token in tokens:
            expected -= SHARES[row][token] * min(ratio * advantage, clipped * advantage)
            slope = 0.0 if is_clipped else -SHARES[row][token] * ratio * advantage
            assert gradient[row][token] == pytest.approx(slope, abs=1e-6)
    assert loss == pytest.approx(expected, abs=1e-6)


def by_k1(log: float) -> float:
    return -log


def by_k2(log: float) -> float:
    return log * log / 2


def by_k3(log: float) -> float:
    return math.exp(log) - 1 - log


@pytest.mark.parametrize(("form", "estimate"), [("k1", by_k1), ("k2", by_k2), ("k3", by_k3)])
def test_the_divergence_from_the_reference(torch: Any, form: str, estimate: Callable[[float], float]) -> None:
    plain, _, _ = found(torch, importance_cap=None)
    loss, _, sums = found(torch, importance_cap=None, kl=0.1, kl_form=form)
    logs = {(row, token): REFERENCE[row][token] - LOGS[row][token] for row, token in places()}
    expected = sum(0.1 * SHARES[row][token] * estimate(log) for (row, token), log in logs.items())
    assert loss - plain == pytest.approx(expected, abs=1e-6)
    assert sums["kl"] == pytest.approx(sum(estimate(log) for log in logs.values()), abs=1e-5)


@pytest.mark.parametrize("extreme", [-1e9, 1e9])
def test_what_is_far_outside_every_clip_stays_finite(torch: Any, extreme: float) -> None:
    objective: Any = import_module("rollouthub.trainers.learn.objective")
    column = torch.full((1, 2), extreme)
    zeros = torch.zeros(1, 2, requires_grad=True)
    ones = torch.ones(1, 2)
    columns = objective.TokenColumns(zeros, column, -column, ones, ones, ones[:, :1], reference=column)
    loss, _ = objective.loss_of(columns, LearnSettings(kl=0.1))
    loss.backward()
    assert math.isfinite(float(loss.detach()))
    assert bool(torch.isfinite(zeros.grad).all())


def test_the_mismatch_is_the_divergence_of_the_engine_from_the_learner(torch: Any) -> None:
    engine, ours = [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]
    objective: Any = import_module("rollouthub.trainers.learn.objective")
    mean = 0.0
    for chance, theirs in zip(engine, ours, strict=True):  # the expectation over what the engine samples
        one = torch.ones(1, 1)
        learnt, sampled = one * math.log(theirs), one * math.log(chance)
        _, sums = objective.loss_of(objective.TokenColumns(learnt, learnt, sampled, one, one, one), LearnSettings())
        mean += chance * float(sums["mismatch"])
    divergence = sum(chance * math.log(chance / theirs) for chance, theirs in zip(engine, ours, strict=True))
    assert mean == pytest.approx(divergence, rel=1e-5)


def test_the_mismatch_is_the_learners_own_where_the_ratio_compares_with_the_engine(torch: Any) -> None:
    objective: Any = import_module("rollouthub.trainers.learn.objective")
    sampled, mask = torch.tensor(SAMPLED), torch.tensor(MASK, dtype=torch.float32)
    columns = objective.TokenColumns(
        torch.tensor(LOGS), sampled, sampled, mask, torch.tensor(SHARES), torch.tensor(ADVANTAGES)[:, None]
    )
    _, sums = objective.loss_of(columns, LearnSettings(proximal="sampler"))
    logs = [LOGS[row][token] - SAMPLED[row][token] for row, token in places()]
    assert float(sums["mismatch"]) == pytest.approx(sum(math.exp(log) - 1 - log for log in logs), abs=1e-5)
