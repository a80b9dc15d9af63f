"""A policy that learns on a CPU in a minute: a tiny random Qwen 2 whose vocabulary has a token for each tool call."""

from importlib import import_module
from typing import Any

from lamp import COLOURS, PROMPT

CALLS = (
    '<tool_call>{"name": "look", "arguments": {}}</tool_call>',
    *(f'<tool_call>{{"name": "press", "arguments": {{"key": "{colour}"}}}}</tool_call>' for colour in COLOURS),
)
"""One token for each call, so that an untrained model makes calls now and then, and parsers see ordinary text."""
MARKS = ("<|im_start|>", "<|im_end|>", "<|pad|>", "<|unknown|>")
ROLES = ("system", "user", "assistant", "tool")
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'assistant' %}{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}"
    '<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>'
    "{% endfor %}<|im_end|>"
    "{% else %}<|im_start|> {{ message.role }} {{ message.content }}{% endif %}"
    "{% endfor %}"
)
"""The chat template: the policy answers right after the last message. Tool schemas are left out, as the vocabulary
lacks words for them.
"""


def tiny_tokenizer() -> Any:
    """A tokenizer with the words of the task and the calls."""
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    words = dict.fromkeys((*MARKS, *ROLES, *PROMPT.split(), *COLOURS, "pressed"))
    vocabulary = {word: place for place, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<|unknown|>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([tokenizers.AddedToken(mark, special=True) for mark in MARKS])
    tokenizer.add_tokens([tokenizers.AddedToken(call, normalized=False, special=False) for call in CALLS])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=None,
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        unk_token="<|unknown|>",
        chat_template=TEMPLATE,
    )


def tiny_model(tokenizer: Any) -> Any:
    """A random model of about 100,000 parameters."""
    transformers: Any = import_module("transformers")
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.8,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = transformers.Qwen2ForCausalLM(config)
    # Rich features and a nearly even first choice: it tries everything, and soon tells one colour from another.
    model.lm_head.weight.data.mul_(0.1)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model
