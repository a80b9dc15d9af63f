"""Rows and models for tests of the learner."""

import random
from importlib import import_module
from typing import Any

from rollouthub.trainers.learn.learn_row import LearnRow


def small_model(seed: int = 0, layers: int = 2, vocabulary: int = 50) -> Any:
    """A random Llama of some 20,000 parameters."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    return transformers.LlamaForCausalLM(config)


def some_rows(count: int, seed: int = 0) -> list[LearnRow]:
    """Rows of different lengths, with a few tokens of the environment in the middle of what is learnt from."""
    drawn = random.Random(seed)
    rows: list[LearnRow] = []
    for _ in range(count):
        length = drawn.randint(8, 24)
        mask = [0, 0, 0, *[int(drawn.random() < 0.7) for _ in range(length - 4)], 1]
        rows.append(
            LearnRow(
                token_ids=[drawn.randrange(50) for _ in range(length)],
                mask=mask,
                logprobs=[-drawn.random() * 4 * kept for kept in mask],
                advantage=drawn.choice((-1.0, 0.5, 1.5)),
                weight=drawn.choice((1.0, 0.5)),
            )
        )
    return rows


def weights_of(model: Any) -> dict[str, Any]:
    """A copy of a model's weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Largest difference between two models' weights."""
    return max(float((one[name] - other[name]).abs().max()) for name in one)
