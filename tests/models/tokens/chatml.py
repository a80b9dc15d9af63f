"""A real byte-level BPE tokenizer, trained on a few lines, behind the methods of a Hugging Face tokenizer."""

import json
import random
from functools import cache
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|im_end|>"
SPECIALS = ("<|im_start|>", END)
_LINES = (
    "You are a helpful assistant. You may call tools.",
    'system user assistant tool {"name": "add", "arguments": {"a": 1, "b": 2}}',
    "The sum of the numbers is seventeen; the answer is 42. What is the sum of these?",
    '{"type": "function", "function": {"name": "add", "description": "Add two numbers", "parameters": {}}}',
)
# The whole turn, its thoughts included, stands in the history as it was said: prefix-preserving.
CHATML = """\
{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %}
{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""
# As reasoning models' templates do it: what was thought before the latest question is left out.
FORGETFUL = CHATML.replace(
    "{{ message.content }}",
    "{% if message.role == 'assistant' and not loop.last %}{{ message.content.split('</think>')[-1] }}"
    "{% else %}{{ message.content }}{% endif %}",
)


@cache
def trained() -> Tokenizer:
    """The tokenizer: 256 bytes, two marks, and what the lines above merge into."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_LINES, trainer)
    # The stub's list is one of unknown things.
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"])  # pyright: ignore[reportUnknownMemberType]
    return tokenizer


class ChatMl:
    """What `HfChatFormat` asks of a tokenizer, over the real one and a template."""

    def __init__(self, template: str = CHATML) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        self._template = environment.from_string(template)
        self.real = trained()
        self.end = self.real.token_to_id(END) or 0
        self.encoded: list[str] = []
        """Every text that was encoded."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> str:
        assert options.pop("tokenize") is False
        return self._template.render(messages=conversation, **options)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        assert not add_special_tokens
        self.encoded.append(text)
        return self.real.encode(text, add_special_tokens=False).ids

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
        return self.real.decode(token_ids, skip_special_tokens=skip_special_tokens)


def odd_ids(text: str, seed: int) -> list[int]:
    """Ids that say a text as no tokenizer would: split anywhere, so that encoding their text gives others."""
    draw, real = random.Random(seed), trained()
    ids: list[int] = []
    while text:
        cut = draw.randint(1, min(8, len(text)))
        ids += real.encode(text[:cut], add_special_tokens=False).ids
        text = text[cut:]
    return ids
