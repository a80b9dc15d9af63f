"""Prepares pictures with veRL's own functions, which call the processor as veRL's agent loops do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.pictures.shown_pictures import has_pictures, shown_bytes
from rollouthub.trainers.systems import system_module


class VerlPictures(PromptPictures):
    """Prepares pictures for a veRL policy, with the policy's own processor."""

    def __init__(self, processor: Any, settings: Mapping[str, Any]) -> None:
        """`settings` are veRL's `data.mm_processor_kwargs`."""
        super().__init__(processor)
        self.settings = dict(settings)
        self._tokenizers: Any = system_module("verl.utils.tokenizer")

    @property
    def mark(self) -> int:
        """Id of the token that stands for an image patch."""
        return self._tokenizers.get_processor_token_id(self.processor, "image")

    def inputs(self, text: str, pictures: Sequence[Any]) -> Any:
        """The processor's output for a text and its pictures."""
        settings = {"add_special_tokens": False, **self.settings}
        return self._tokenizers.build_multimodal_processor_inputs(
            self.processor, text=[text], images=list(pictures), mm_processor_kwargs=settings
        )


async def pictures_of(rollout: Rollout, turn: int, directory: Path, pictures: PromptPictures | None) -> list[Any]:
    """The pictures in a turn's conversation, in order, from the run's directory; veRL itself makes their tensors.

    Raises:
        ConfigError: pictures were shown, and there is no processor.
        ModelError: a picture cannot be opened.
        StoreError, UnknownNameError: a picture's bytes are not in the directory, or were altered.
    """
    shown = shown_bytes(rollout, turn, directory)
    sees = has_pictures(bool(shown), pictures)
    return [] if sees is None else await sees.opened(shown)
