"""A policy that sees: the processor of Qwen2.5-VL over a tiny tokenizer, and what it says to what it is shown."""

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.models.tokens.chatml import CHATML, END, ChatMl, odd_ids, trained
from tests.trainers.verl_set_up import System

GALLERY = str(Path(__file__).with_name("gallery.py"))
"""An environment of pictures."""
MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
SEEING = CHATML.replace(
    "{{ message.content }}",
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}",
)
LOOK = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


def seeing_processor(system: System) -> Any:
    """The processor, over its half for pictures that needs Pillow alone; the one for videos needs torchvision."""
    transformers = system("transformers")
    pillow: Any = system("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKS)})
    tokenizer.chat_template = SEEING
    videos = object.__new__(transformers.BaseVideoProcessor)
    videos.model_input_names = ["pixel_values_videos", "video_grid_thw"]
    return transformers.Qwen2_5_VLProcessor(
        image_processor=pillow.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16),
        tokenizer=tokenizer,
        video_processor=videos,
        chat_template=SEEING,
    )


class Seer:
    """Looks, and says how wide the last is of what it was shown; `shown` is what a task shows by itself."""

    def __init__(self, shown: int = 0) -> None:
        self.shown, self.end = shown, ChatMl().end
        self.seen: list[list[bytes]] = []
        """The pictures of each call."""
        self.said: dict[tuple[int, ...], list[int]] = {}
        """Each conversation at its end → the ids sampled last."""

    def speak(self, prompt_ids: Sequence[int], raws: Sequence[bytes]) -> list[int]:
        """What it samples after a prompt that shows pictures."""
        self.seen.append(list(raws))
        words = f"It is {Image.open(BytesIO(raws[-1])).width}." if len(raws) > self.shown else LOOK
        ids = [*odd_ids(words, len(self.seen)), self.end]
        self.said[(*prompt_ids, *ids)] = ids
        return ids


def same_pictures(processor: Any, ids: Sequence[int], shown: Any, raws: Sequence[bytes]) -> None:
    """Tensors are what the processor makes of these very bytes, and the ids have as many marks as it wants."""
    opened = [Image.open(BytesIO(raw)).convert("RGB") for raw in raws]
    expected = processor.image_processor(images=opened, return_tensors="pt")
    assert shown["image_grid_thw"].tolist() == expected["image_grid_thw"].tolist()
    assert shown["pixel_values"].equal(expected["pixel_values"])
    wanted = [int(grid.prod()) // processor.image_processor.merge_size**2 for grid in expected["image_grid_thw"]]
    marks = "".join("x" if token == processor.image_token_id else " " for token in ids)
    assert [len(run) for run in re.findall("x+", marks)] == wanted
