"""A model that fits in a test: random weights, a tokenizer of bytes, a chat template with tools."""

from importlib import import_module
from pathlib import Path
from typing import Any

MARKS = ("<|pad|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = """\
{%- if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def tiny_model(folder: Path, *, length: int = 4096) -> Path:
    """Save a model of some 60,000 parameters, and its tokenizer."""
    transformers: Any = import_module("transformers")
    tokenizers: Any = import_module("tokenizers")
    byte_level: Any = tokenizers.pre_tokenizers.ByteLevel
    alphabet = sorted(byte_level.alphabet())
    words = {word: place for place, word in enumerate((*MARKS, *alphabet))}
    bare = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=words, merges=[]))
    bare.pre_tokenizer = byte_level(add_prefix_space=False)
    bare.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare,
        pad_token=MARKS[0],
        eos_token=MARKS[2],
        additional_special_tokens=[MARKS[1]],
        model_max_length=length,
        chat_template=TEMPLATE,
    )
    tokenizer.save_pretrained(folder)
    transformers.set_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=length,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder
