"""Sampling from a model in memory: the distribution that is drawn from, seeds, and batches of calls at once."""

from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import anyio
import pytest

from rollouthub.generation import Sampling
from rollouthub.models.tokens.token_engine import Sampled
from rollouthub.trainers.policy.policy_engine import PolicyEngine
from tests.trainers.learn.tiny_learner import small_model

pytestmark = pytest.mark.live
PROMPT, DRAWS, VOCABULARY = (3, 1, 4, 1, 5), 6_000, 12
System = Callable[[str], ModuleType]


async def answers(model: Any, samplings: list[Sampling]) -> list[Sampled]:
    """Answers of a new engine to calls that arrive together."""
    engine = PolicyEngine(model, end_ids=(), max_batch=len(samplings))
    found: dict[int, Sampled] = {}

    async def ask(place: int) -> None:
        found[place] = await engine.sample(PROMPT, samplings[place], session=str(place), media={})

    async with anyio.create_task_group() as tasks:
        for place in range(len(samplings)):
            tasks.start_soon(ask, place)
    assert engine.batches == 1, "what arrives together is sampled together"
    return [found[place] for place in range(len(samplings))]


def probabilities(torch: Any, model: Any, temperature: float, top_p: float) -> list[float]:
    """What the next token's should be, by the plainest means."""
    with torch.no_grad():
        logits = model.eval()(input_ids=torch.tensor([PROMPT])).logits[0, -1].double()
    found: list[float] = (logits / temperature).softmax(-1).tolist()
    kept, total = set[int](), 0.0
    for token in sorted(range(VOCABULARY), key=lambda token: -found[token]):
        if total >= top_p:
            break
        kept.add(token)
        total += found[token]
    return [probability / total if token in kept else 0.0 for token, probability in enumerate(found)]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.8)])
async def test_tokens_are_drawn_from_the_models_distribution(system: System, temperature: float, top_p: float) -> None:
    torch: Any = system("torch")
    model = small_model(vocabulary=VOCABULARY)
    torch.manual_seed(1)
    drawn = await answers(model, [Sampling(temperature=temperature, top_p=top_p, max_tokens=1)] * DRAWS)
    counts = Counter(each.token_ids[0] for each in drawn)
    expected = probabilities(torch, model, temperature, top_p)
    assert sum(probability > 0 for probability in expected) > 4
    for token, probability in enumerate(expected):
        five_deviations = 5 * (probability * (1 - probability) / DRAWS) ** 0.5
        assert counts[token] / DRAWS == pytest.approx(probability, abs=five_deviations), token
    for each in drawn[:100]:
        assert each.logprobs is not None
        probability = torch.tensor(expected[each.token_ids[0]])
        assert each.logprobs[0] == pytest.approx(float(probability.log()), abs=1e-4)


async def test_a_seed_draws_the_same_beside_others_and_temperature_0_the_likeliest(system: System) -> None:
    torch: Any = system("torch")
    model = small_model(vocabulary=VOCABULARY)
    seeded = Sampling(temperature=1.0, seed=7, max_tokens=20)
    (alone,) = await answers(model, [seeded])
    others = [Sampling(temperature=1.0, top_p=0.9, max_tokens=count) for count in (9, 2, 2)]
    beside = await answers(model, [*others, seeded, Sampling(temperature=0, max_tokens=1)])
    assert beside[3].token_ids == alone.token_ids
    assert beside[3].logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert [len(each.token_ids) for each in beside] == [9, 2, 2, 20, 1]
    expected = probabilities(torch, model, 1.0, 1.0)
    assert beside[4].token_ids == [max(range(VOCABULARY), key=expected.__getitem__)]
    assert {each.finish_reason for each in beside} == {"length"}
