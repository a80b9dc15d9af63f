"""Makes a causal language model with random weights and a tokenizer of its own in a folder: nothing is downloaded.

python -m tests.gpu.making_cell '{"folder": "made", "shape": "tiny", "seed": 0}'
"""

import sysconfig
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.gpu.cells import Given, answer

MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CALLS = ("<tool_call>", "</tool_call>")
"""Tokens of their own, as Qwen 2.5 has them: vLLM's Hermes parser looks for them."""
TEMPLATE = """\
{%- if tools %}<|im_start|>system
You may call tools. Signatures:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
SHAPES: dict[str, dict[str, Any]] = {
    # Half a billion weights: the smallest of a realistic size asks most of who feeds it.
    "half_billion": {
        "vocab_size": 128_000,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
    },
    # Heads of 32, the smallest that vLLM's attention has on a CPU; and an output layer of its own, since vLLM's CPU
    # build packs one that is tied to the embedding, and brings no new weights there.
    "tiny": {
        "vocab_size": 2048,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": False,
    },
}
CONTEXT = 4096
_TRAINING_BYTES = 400
"""Bytes of Python's own sources that the tokenizer is trained on, for each entry of its vocabulary."""


def sources(most_bytes: int) -> Iterator[str]:
    """Texts of Python's standard library, up to so many bytes."""
    left = most_bytes
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        yield path.read_text(encoding="utf-8", errors="ignore")
        left -= path.stat().st_size
        if left < 0:
            return


def tokenizer_of(size: int) -> Any:
    """A byte-level BPE tokenizer of at most `size` entries, trained on Python's own sources."""
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    byte_level: Any = tokenizers.pre_tokenizers.ByteLevel
    bare = tokenizers.Tokenizer(tokenizers.models.BPE())
    bare.pre_tokenizer = byte_level(add_prefix_space=False)
    bare.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size - len(CALLS),
        special_tokens=list(MARKS),
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    bare.train_from_iterator(sources(size * _TRAINING_BYTES), trainer)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare,
        eos_token=MARKS[2],
        pad_token=MARKS[0],
        additional_special_tokens=[MARKS[1]],
        model_max_length=CONTEXT,
        chat_template=TEMPLATE,
    )
    made.add_tokens(list(CALLS), special_tokens=False)
    return made


def make(given: Given) -> dict[str, Any]:
    """Make the model; returns the number of its weights."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    folder, shape = Path(given["folder"]), SHAPES[given["shape"]]
    tokenizer = tokenizer_of(shape["vocab_size"])
    transformers.set_seed(given["seed"])
    config = transformers.LlamaConfig(
        **{**shape, "vocab_size": len(tokenizer)},  # whatever is sampled is a token
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return {"weights": sum(each.numel() for each in model.parameters())}


if __name__ == "__main__":
    answer(make)
