"""A policy of veRL's that sees: its model's folder with a processor, and a client that looks."""

from pathlib import Path
from types import MethodType
from typing import Any

import pytest

from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.trainers.seeing import GALLERY, LOOK, MARKS, seeing_processor
from tests.trainers.verl_set_up import System

__all__ = ["GALLERY", "Looker", "seeing_model"]


def seeing_model(system: System, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model's folder; veRL is handed its processor. From disk it cannot be read here: its half for videos needs
    torchvision."""
    transformers = system("transformers")
    model: Any = system("transformers.models.qwen2_5_vl").Qwen2_5_VLModel
    processor = seeing_processor(system)
    tokenizer = processor.tokenizer
    tokenizer.save_pretrained(folder)
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

    def __init__(self, output: Any, shown: int = 0) -> None:
        """`output` is veRL's `TokenOutput`; `shown` is how many pictures a task shows by itself."""
        self.output, self.end, self.shown = output, ChatMl().end, shown
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
        words = f"It is {pictures[-1].width}." if len(pictures) > self.shown else LOOK
        ids = [*odd_ids(words, len(self.asked)), self.end]
        self.said[(*prompt_ids, *ids)] = ids
        return self.output(
            token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed", extra_fields={"global_steps": 5}
        )
