"""A policy of veRL's that sees: the processor of Qwen2.5-VL over a tiny tokenizer, and a client that looks."""

from pathlib import Path
from types import MethodType
from typing import Any

import pytest

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


def seeing_model(system: System, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model's folder; veRL is handed its processor. From disk it cannot be read here: its half for videos needs
    torchvision."""
    transformers = system("transformers")
    pillow: Any = system("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    model: Any = system("transformers.models.qwen2_5_vl").Qwen2_5_VLModel
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained(), eos_token=END, pad_token=END)
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKS)})
    tokenizer.chat_template = SEEING
    tokenizer.save_pretrained(folder)
    videos: Any = object.__new__(transformers.BaseVideoProcessor)
    processor = transformers.Qwen2_5_VLProcessor(
        image_processor=pillow.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16),
        tokenizer=tokenizer,
        video_processor=videos,
    )
    config = transformers.Qwen2_5_VLConfig(
        image_token_id=processor.image_token_id,
        video_token_id=processor.video_token_id,
        vision_start_token_id=tokenizer.convert_tokens_to_ids(MARKS[0]),
        architectures=["Qwen2_5_VLForConditionalGeneration"],
    )
    config.save_pretrained(folder)
    # As veRL's `hf_processor` does it.
    processor.config = config
    processor.get_rope_index = MethodType(model.get_rope_index, processor)
    processor.get_vision_position_ids = MethodType(model.get_vision_position_ids, processor)

    def read(*_: object, **__: object) -> Any:
        return processor

    monkeypatch.setattr(system("verl.workers.config.model"), "hf_processor", read)
    return processor


class Looker:
    """Stands where veRL's `LLMServerClient` does: looks, and says how wide what it was shown is."""

    def __init__(self, output: Any) -> None:
        """`output` is veRL's `TokenOutput`."""
        self.output, self.end = output, ChatMl().end
        self.asked: list[dict[str, Any]] = []
        self.said: dict[tuple[int, ...], list[int]] = {}
        """Each conversation at its end → the ids sampled last."""

    def __deepcopy__(self, memo: object) -> "Looker":
        return self  # hydra copies what it hands to an agent loop; the real one is a handle, too

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **shown: Any
    ) -> Any:
        pictures: list[Any] = shown.get("image_data") or []
        self.asked.append({"prompt_ids": prompt_ids, **shown})
        words = f"It is {pictures[-1].width}." if pictures else LOOK
        ids = [*odd_ids(words, len(self.asked)), self.end]
        self.said[(*prompt_ids, *ids)] = ids
        return self.output(
            token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed", extra_fields={"global_steps": 5}
        )
