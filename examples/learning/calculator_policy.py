"""A tiny policy for `arithmetic`: a tokenizer trained on reference solutions, and a random model of 0.4 M weights."""

import json
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

MARKS = ("<|pad|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 1_500
"""Tokens: bytes, and the pieces that reference solutions have most often. A call takes some twenty of them, for every
digit is a token of its own.
"""
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n# Tools\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n"
    "{% endif %}"
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}<|im_start|>user\n<tool_response>{{ message.content }}</tool_response><|im_end|>\n"
    "{% else %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
    "</tool_call>{% endfor %}<|im_end|>\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template of Qwen's kind, with the schemas of the tools."""


def trained_tokenizer(texts: Iterable[str]) -> Any:
    """A byte-level BPE tokenizer that never merges digits, trained on texts."""
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    pieces = tokenizers.pre_tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pieces.Sequence(
        [pieces.Digits(individual_digits=True), pieces.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(MARKS),
        initial_alphabet=pieces.ByteLevel.alphabet(),
        max_token_length=200,
        show_progress=False,
    )
    pieces_of = re.compile(r"<\|im_start\|>|<\|im_end\|>\n?|(?<=assistant\n)")  # a prompt ends where an answer begins
    tokenizer.train_from_iterator((piece for text in texts for piece in pieces_of.split(text)), trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=None, eos_token=MARKS[2], pad_token=MARKS[0], chat_template=TEMPLATE
    )


def random_model(tokenizer: Any, seed: int, *, is_tied: bool = True) -> Any:
    """A random model, the same for the same seed. With `is_tied` its output layer is the embedding, which vLLM's CPU
    build packs when it starts: new weights do not reach it there.
    """
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    torch.manual_seed(seed)
    config = transformers.GraniteConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        attention_multiplier=32**-0.5,  # of a head's size
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 30.0},  # conversations are some fifty tokens long
        initializer_range=0.06,
        tie_word_embeddings=is_tied,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = transformers.GraniteForCausalLM(config)
    if not is_tied:
        model.lm_head.weight.data.copy_(model.model.embed_tokens.weight)  # the same function as the tied one
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def imitated(tokenizer: Any, messages: Sequence[Any], tools: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The token ids of a conversation [token], and a mask that is 1 on what the assistant wrote."""
    ids: list[int] = []
    mask: list[int] = []
    text = ""
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        for until, is_said in ((place, 0), (place + 1, 1)):
            whole = tokenizer.apply_chat_template(
                list(messages[:until]), tools=list(tools), tokenize=False, add_generation_prompt=not is_said
            )
            whole = whole.removesuffix("\n") if is_said else whole
            added = tokenizer.encode(whole.removeprefix(text), add_special_tokens=False)
            ids, mask, text = [*ids, *added], [*mask, *[is_said] * len(added)], whole
    return ids, mask


def written(messages: Sequence[Any], tools: Sequence[Any]) -> str:
    """A conversation by the template, before there is a tokenizer."""
    jinja2: Any = import_module("jinja2.sandbox")
    environment = jinja2.ImmutableSandboxedEnvironment()
    environment.filters["tojson"] = json.dumps
    return environment.from_string(TEMPLATE).render(messages=messages, tools=tools)
