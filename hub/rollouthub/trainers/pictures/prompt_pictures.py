"""`PromptPictures`: image inputs of a vision-language policy, made by its Hugging Face processor."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import anyio.to_thread

from rollouthub.authoring.decoded_picture import FORMATS, BadPicture, decoded_picture
from rollouthub.errors import ModelError

_FORMATS = (*FORMATS, "GIF", "BMP")


class PromptPictures:
    """A processor: writes pictures into prompts as tokens, and makes the model's image tensors."""

    def __init__(self, processor: Any) -> None:
        """`processor` is a `transformers` processor with an `image_processor`, such as `AutoProcessor` loads."""
        self.processor = processor

    @property
    def mark(self) -> int:
        """Id of the token that stands for an image patch."""
        return self.processor.image_token_id

    async def opened(self, raws: Iterable[bytes]) -> list[Any]:
        """Encoded pictures as Pillow images in RGB.

        Raises:
            ModelError: the bytes of one are not a picture.
        """
        return await anyio.to_thread.run_sync(lambda: [open_picture(raw) for raw in raws])

    async def encoded(self, text: str, raws: Sequence[bytes]) -> list[int]:
        """The token ids of a rendered conversation, each picture expanded to its image tokens.

        Raises:
            ModelError: the processor refuses the conversation, or the template shows another number of pictures than it
            has.
        """
        pictures = await self.opened(raws)
        return await anyio.to_thread.run_sync(self._encoded, text, pictures)

    def tensors(self, raws: Sequence[bytes]) -> dict[str, Any]:
        """The model's image inputs for pictures in their order (`pixel_values`, `image_grid_thw`); {} without pictures.

        It is slow and blocking: from an event loop, call it in a thread.

        Raises:
            ModelError: a picture cannot be opened, or the processor refuses it.
        """
        if not raws:
            return {}
        try:
            made: Mapping[str, Any] = self.processor.image_processor(
                images=[open_picture(raw) for raw in raws], return_tensors="pt"
            )
        except ModelError:
            raise
        except Exception as error:  # processors raise any exception
            raise ModelError(f"the processor refuses a rollout's pictures: {error}", retryable=False) from error
        return dict(made)

    def runs(self, token_ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where the pictures are in a prompt: (first token, number of tokens) of each."""
        marks = [place for place, token in enumerate(token_ids) if token == self.mark]
        begins = [place for before, place in pairwise([-2, *marks]) if place != before + 1]
        known = set(marks)
        found: list[tuple[int, int]] = []
        for begin in begins:
            end = begin
            while end in known:
                end += 1
            found.append((begin, end - begin))
        return found

    def inputs(self, text: str, pictures: Sequence[Any]) -> Any:
        """The processor's output for a text and its pictures."""
        # The template has written the special tokens; the tokenizer must not add them a second time.
        return self.processor(text=[text], images=list(pictures), return_tensors="pt", add_special_tokens=False)

    def _encoded(self, text: str, pictures: Sequence[Any]) -> list[int]:
        try:
            inputs = self.inputs(text, pictures)
        except Exception as error:  # processors raise any exception
            raise ModelError(f"the processor refuses the conversation's pictures: {error}", retryable=False) from error
        ids: list[int] = inputs["input_ids"][0].tolist()
        shown = len(self.runs(ids))
        if shown != len(pictures):
            raise ModelError(
                f"the conversation shows {len(pictures)} pictures, and as the chat template writes it {shown}",
                retryable=False,
            )
        return ids


def open_picture(raw: bytes) -> Any:
    """An encoded picture as a Pillow image in RGB.

    Raises:
        ModelError: the bytes are not a picture, or one too large to decode.
    """
    try:
        return decoded_picture(raw, formats=_FORMATS)
    except BadPicture as error:
        raise ModelError(f"a picture cannot be opened: {error}", retryable=False) from error
