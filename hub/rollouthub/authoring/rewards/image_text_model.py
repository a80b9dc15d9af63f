"""CLIP models of the transformers library in this process: scores of texts and pictures, batched over many callers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from anyio import to_thread

from rollouthub.authoring.decoded_picture import BadPicture, decoded_picture
from rollouthub.errors import ConfigError, VerifierError, describe
from rollouthub.plugins.extras import pip_install
from rollouthub.plugins.file_owners import refuse_strangers
from rollouthub.text import one_line

EXTRA = "image-scores"
_PACKAGES = ("torch", "transformers", "PIL")


def check_packages(what: str) -> None:
    """Check that the libraries are installed.

    Raises:
        ConfigError: names a missing one, and how to install it.
    """
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise ConfigError(f"{what} needs {package}, which is not installed: {pip_install(EXTRA)}")


@dataclass(eq=False)
class _Asked:
    """A picture and a text to be scored, with the result once there is one."""

    text: str
    picture: bytes
    found: float | BadPicture | VerifierError | ConfigError | None = None


class ImageTextModel:
    """One model on one device, loaded at its first use.

    Calls that arrive during a forward pass are batched into the next one. Passes run one at a time in a worker thread.
    """

    def __init__(self, model: str, device: str, batch_size: int) -> None:
        self._model, self._device, self._batch_size = model, device, batch_size
        self._waiting: list[_Asked] = []
        self._turn = anyio.Lock()
        # Of the thread itself: a pass whose caller has left goes on to its end.
        self._thread = anyio.CapacityLimiter(1)
        self.passes = 0
        """Number of forward passes so far."""

    async def load(self) -> None:
        """Load the model now rather than at its first use.

        Raises:
            ConfigError: there is no such model, or no such device.
        """
        await to_thread.run_sync(lambda: self._weights, limiter=self._thread)

    async def cosines(self, pairs: Sequence[tuple[str, bytes]], timeout_seconds: float) -> list[float | BadPicture]:
        """For each text and picture, the cosine of their embeddings, or what is wrong with the picture.

        Raises:
            VerifierError: the model failed, or took too long.
            ConfigError: the model cannot be loaded.
        """
        asked = [_Asked(text, picture) for text, picture in pairs]
        self._waiting += asked
        try:
            with anyio.fail_after(timeout_seconds):
                while any(each.found is None for each in asked):
                    await self._take_turn(asked)
        except TimeoutError:
            raise VerifierError(f"{self._model} scored no picture within {timeout_seconds:g} s") from None
        finally:
            self._waiting = [each for each in self._waiting if each not in asked]
        found: list[float | BadPicture] = []
        for each in asked:
            assert each.found is not None
            if isinstance(each.found, VerifierError | ConfigError):
                raise each.found
            found.append(each.found)
        return found

    @property
    def scale(self) -> float:
        """The factor by which the model itself multiplies cosines; loads the model."""
        return self._weights.scale

    async def _take_turn(self, asked: Sequence[_Asked]) -> None:
        async with self._turn:
            await anyio.lowlevel.checkpoint()  # who comes at the same moment is in the same pass
            if all(each.found is not None for each in asked):
                return
            batch, self._waiting = self._waiting[: self._batch_size], self._waiting[self._batch_size :]
            try:
                found = await to_thread.run_sync(self._pass, batch, limiter=self._thread, abandon_on_cancel=True)
            except (VerifierError, ConfigError) as error:
                found = [error] * len(batch)
            except BaseException:  # only who leaves is gone; the others are in the next pass
                self._waiting = batch + self._waiting
                raise
            for each, result in zip(batch, found, strict=True):
                each.found = result

    def _pass(self, batch: Sequence[_Asked]) -> Sequence[float | BadPicture | VerifierError | ConfigError]:
        """Score a batch; runs in a thread.

        Raises:
            VerifierError: the model failed.
            ConfigError: the model cannot be loaded.
        """
        weights = self._weights
        self.passes += 1
        pixels: list[Any] = []
        try:
            for each in batch:  # one decoded picture at a time is in memory
                try:
                    pixels.append(weights.pixels(decoded_picture(each.picture)))
                except BadPicture as error:
                    pixels.append(error)
            good = [place for place, picture in enumerate(pixels) if not isinstance(picture, BadPicture)]
            found = weights.cosines([batch[place].text for place in good], [pixels[place] for place in good])
        except (RuntimeError, ValueError) as error:  # torch's, such as of a device that is out of memory
            raise VerifierError(f"{self._model} failed: {one_line(describe(error))}") from error
        results = list(pixels)
        for place, cosine in zip(good, found, strict=True):
            is_number = math.isfinite(cosine)
            results[place] = cosine if is_number else VerifierError(f"{self._model} gave {cosine}, which is no score")
        return results

    @cached_property
    def _weights(self) -> "_Weights":
        return _load(self._model, self._device)


@lru_cache(maxsize=4)
def shared_model(model: str, device: str, batch_size: int) -> ImageTextModel:
    """The one instance of a model in this process, which all scorers of that model share."""
    return ImageTextModel(model, device, batch_size)


@dataclass(frozen=True)
class _Weights:
    """A loaded model with its tokenizer and image processor."""

    model: Any
    tokenizer: Any
    processor: Any
    device: Any
    longest: int
    """Most tokens of a text; the rest is cut off."""

    @property
    def scale(self) -> float:
        return math.exp(self.model.logit_scale.item())

    def pixels(self, picture: Any) -> Any:
        """A picture as the model's input: [1, channels, height, width]."""
        return self.processor(images=picture, return_tensors="pt")["pixel_values"]

    def cosines(self, texts: Sequence[str], pixels: Sequence[Any]) -> list[float]:
        """The cosine of each text and the picture at the same index."""
        if not pixels:
            return []
        import torch  # pyright: ignore[reportMissingImports]  # the extra's

        words: Any = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.longest, return_tensors="pt"
        )
        inference: Any = torch.inference_mode  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        with inference():
            out = self.model(
                input_ids=words["input_ids"].to(self.device),
                attention_mask=words["attention_mask"].to(self.device),
                pixel_values=torch.cat(list(pixels)).to(self.device),  # pyright: ignore[reportUnknownMemberType]
            )
            return [float(value) for value in (out.text_embeds * out.image_embeds).sum(-1).tolist()]


def _load(name: str, device: str) -> _Weights:
    check_packages(f"the model {name!r}")
    import torch  # pyright: ignore[reportMissingImports]  # the extra's
    import transformers  # pyright: ignore[reportMissingImports]  # the extra's

    library: Any = transformers
    place = _device(torch, device)
    folder = Path(name).expanduser()
    if not folder.is_dir() and (folder.is_absolute() or name.startswith((".", "~"))):
        raise ConfigError(f"there is no folder {name!r}; give the folder of a CLIP model, or its name at Hugging Face")
    refuse_strangers(name)
    given: dict[str, Any] = {"local_files_only": True} if folder.is_dir() else {}
    source = str(folder) if folder.is_dir() else name
    try:
        kind = library.AutoConfig.from_pretrained(source, **given).model_type
        if kind != "clip":
            raise ConfigError(
                f"{name!r} is a model of type {kind!r}; CLIP, PickScore and HPS in transformers are 'clip'"
            )
        model, loading_info = library.CLIPModel.from_pretrained(source, output_loading_info=True, **given)
        if missing := sorted(loading_info["missing_keys"]):
            raise ConfigError(f"the model {name!r} lacks {len(missing)} of its weights, such as {missing[0]!r}")
        # The processor that needs Pillow alone, which the first lines of version 5 call so.
        processing = getattr(library, "CLIPImageProcessorPil", None) or library.CLIPImageProcessor
        processor = processing.from_pretrained(source, **given)
        tokenizer = library.AutoTokenizer.from_pretrained(source, **given)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ConfigError(f"the model {name!r} cannot be loaded: {one_line(describe(error))}") from error
    longest = min(tokenizer.model_max_length, model.config.text_config.max_position_embeddings)
    return _Weights(model.eval().to(place), tokenizer, processor, place, longest)


def _device(torch: Any, wanted: str) -> Any:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted == "auto":
        wanted = "cuda" if count else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ConfigError(f"{wanted!r} is no device; give 'auto', 'cpu', 'cuda' or 'cuda:1'") from None
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(f"there is no device {wanted!r}: torch sees {count} of CUDA here; give device='cpu'")
    return device
