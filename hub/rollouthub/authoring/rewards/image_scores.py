"""`ClipScore` and `HpsScore`: how well a picture fits its description, by CLIP models of the transformers library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from rollouthub.authoring.decoded_picture import BadPicture
from rollouthub.authoring.rewards.image_text_model import ImageTextModel, check_packages, shared_model
from rollouthub.authoring.submitted_picture import submitted_picture
from rollouthub.score import Score, Submission
from rollouthub.task import Task

NO_PICTURE = "no picture was handed in"


def _prompt(task: Task[Any, Any]) -> str:
    prompt = task.public.prompt
    return prompt if isinstance(prompt, str) else "\n".join(message.text for message in prompt if message.text)


@dataclass(frozen=True, kw_only=True)
class ImageScore:
    """What both scorers share. A submission without a valid picture scores 0: that is the agent's doing.

    Raises:
        ConfigError: the libraries are not installed.
        ValueError: the batch size is below 1.
    """

    model: str
    """A model's folder, or its name at Hugging Face, from which it is downloaded; a folder needs no network."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`; `auto` is CUDA if there is any."""
    batch_size: int = 16
    """Most pictures in one forward pass; concurrent calls share passes."""
    timeout_seconds: float = 300.0
    """Seconds that a call waits for its score, including the loading of the model."""
    text: Callable[[Task[Any, Any]], str] = _prompt
    """Gives the description that the picture should fit; it is truncated to the model's context."""
    picture: Callable[[Submission], bytes | None] = submitted_picture
    """Gives the picture's file content (PNG, JPEG, WebP); runs in a thread. A `ValueError` says what the agent did
    wrong.
    """

    def __post_init__(self) -> None:
        check_packages(type(self).__name__)
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: a pass takes at least one picture")

    async def prepare(self) -> None:
        """Load the model before the first episode, from `Environment.prepare`, so that no verdict waits for it.

        Raises:
            ConfigError: there is no such model, or no such device.
        """
        await self._shared.load()

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """Score one submission.

        Raises:
            VerifierError: the model failed, or took too long.
            ConfigError: the model cannot be loaded.
        """
        return (await self.score_group(task, [submission]))[0]

    async def score_group(self, task: Task[Any, Any], submissions: Sequence[Submission]) -> list[Score]:
        """Score all submissions to a task, in their order.

        Raises:
            VerifierError: the model failed, or took too long.
            ConfigError: the model cannot be loaded.
        """
        text = self.text(task).encode(errors="replace").decode()
        pictures = [await to_thread.run_sync(self._picture, submission) for submission in submissions]
        shown = [picture for picture in pictures if isinstance(picture, bytes)]
        found = iter(await self._shared.cosines([(text, picture) for picture in shown], self.timeout_seconds))
        return [self._score(next(found) if isinstance(picture, bytes) else picture) for picture in pictures]

    @property
    def _shared(self) -> ImageTextModel:
        return shared_model(self.model, self.device, self.batch_size)

    def _picture(self, submission: Submission) -> bytes | str:
        """The picture's file content, or the reason why there is none."""
        try:
            return self.picture(submission) or NO_PICTURE
        except ValueError as error:
            return str(error)

    def _score(self, found: float | BadPicture | str) -> Score:
        if isinstance(found, float):
            return Score(reward=self._reward(found, self._shared), metrics={"cosine": found})
        return Score(reward=0.0, feedback=str(found))

    def _reward(self, cosine: float, model: ImageTextModel) -> float:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ClipScore(ImageScore):
    """CLIPScore: `weight` times the cosine of picture and description, never below 0 (arXiv:2104.08718, equation 1).

    fits = ClipScore(model="openai/clip-vit-base-patch32") reward = WeightedReward({"fits": fits, "brief": brief},
    {"fits": 1.0, "brief": 0.1})
    """

    weight: float = 2.5

    def _reward(self, cosine: float, model: ImageTextModel) -> float:
        return self.weight * max(cosine, 0.0)


@dataclass(frozen=True, kw_only=True)
class HpsScore(ImageScore):
    """A score of human preference: the cosine times the model's own scale, for CLIP models that were trained on which
    of two pictures people preferred, as HPS v2 (arXiv:2306.09341) and PickScore (arXiv:2305.01569).

        preferred = HpsScore(model="yuvalkirstain/PickScore_v1")

    Weights must be in the format of transformers.
    """

    scale: float | None = None
    """Factor of the cosine; None is the model's own (100 in most), 1 gives bare cosines, as the package of HPS v2
    does.
    """

    def _reward(self, cosine: float, model: ImageTextModel) -> float:
        return cosine * (model.scale if self.scale is None else self.scale)
