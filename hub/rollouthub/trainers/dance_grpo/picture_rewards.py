"""DanceGRPO: rewards of generated pictures, for the scoring part of its scripts, and a file of captions to train on."""

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from rollouthub.authoring.rewards import group_advantages
from rollouthub.errors import ConfigError, VerifierError
from rollouthub.task import Public
from rollouthub.trainers.reward_server.reward_client import RewardClient
from rollouthub.trainers.reward_server.reward_wire import MOST_IMAGES, ImageReply

Picture = Any
"""A Pillow image, its encoded bytes, or the path of a file."""
_MOST_BYTES = 32 * 2**20
"""Most characters of base64-encoded pictures in one request; the server takes bodies of up to 64 MiB."""
_CHINESE = re.compile("[\u4e00-\u9fff]")
_MOST_CAPTIONS = 50_000


@dataclass(frozen=True)
class ImageRewards:
    """A reward server's answer for some pictures; every list is in the pictures' order."""

    rewards: list[float | None]
    """The reward of each picture; None if the picture is unscored."""
    components: dict[str, list[float | None]] = field(default_factory=dict[str, "list[float | None]"])
    problems: list[str | None] = field(default_factory=list["str | None"])
    """Why each picture is unscored; None if the picture is scored."""


def judge_images(
    images: Sequence[Picture],
    prompts: Sequence[str],
    *,
    metadata: Sequence[Mapping[str, Any]] | None = None,
    on_server: bool = False,
    client: RewardClient | None = None,
) -> ImageRewards:
    """Ask a reward server to score pictures. An unscored picture has the reward None, and its reason in `problems`.

    With `on_server`, `images` are paths, which the server reads from its own folder. Otherwise the pictures' bytes are
    sent, in several requests if necessary.

    Raises:
        ConfigError: images, prompts and metadata differ in number, or no server is named.
        VerifierError: the server does not answer.
    """
    given: list[dict[str, Any]] = [{} for _ in images]
    if metadata is not None:
        given = [dict(each) for each in metadata]
    if not len(images) == len(prompts) == len(given):
        raise ConfigError(f"{len(images)} images, {len(prompts)} prompts and {len(given)} metadata do not match")
    client = client or RewardClient()
    encoded = [{"path": str(image)} if on_server else _encoded(image) for image in images]
    whole = ImageRewards([])
    for begin, end in _requests(encoded):
        body = {"images": encoded[begin:end], "prompts": list(prompts[begin:end]), "metadata": given[begin:end]}
        answer = client.post("/v1/images", body)
        try:
            reply = ImageReply.model_validate(answer)
        except ValidationError as error:
            raise VerifierError(f"the reward server's answer is none: {error}") from error
        lengths = {len(reply.rewards), len(reply.problems), *map(len, reply.components.values())}
        if lengths != {end - begin}:
            raise VerifierError(f"the reward server answered for {lengths} pictures, not {end - begin}")
        for name in {*whole.components, *reply.components}:
            column = whole.components.setdefault(name, [None] * begin)
            column.extend(reply.components.get(name, [None] * (end - begin)))
        whole.rewards.extend(_finite(reply.rewards))
        whole.problems.extend(reply.problems)
    return whole


def image_rewards(
    images: Sequence[Picture],
    prompts: Sequence[str],
    *,
    url: str = "",
    token: str | None = None,
    metadata: Sequence[Mapping[str, Any]] | None = None,
    on_server: bool = False,
    unscored: Literal["raise", "nan"] = "raise",
    client: RewardClient | None = None,
) -> list[float]:
    """The reward of each picture. For an unscored picture it raises, or gives NaN with `unscored="nan"`, but never 0.

    With NaN, normalise the groups by `image_advantages`: DanceGRPO's own mean of a group with a NaN is NaN.

    Raises:
        VerifierError: the server does not answer, or a picture is unscored.
        ConfigError: as `judge_images`.
    """
    client = client or RewardClient(url, token)
    judged = judge_images(images, prompts, metadata=metadata, on_server=on_server, client=client)
    missing = [place for place, reward in enumerate(judged.rewards) if reward is None]
    if missing and unscored == "raise":
        why = judged.problems[missing[0]] or "no reason was given"
        raise VerifierError(f"{len(missing)} of {len(judged.rewards)} pictures are unscored; the first: {why}")
    return [math.nan if reward is None else reward for reward in judged.rewards]


def image_advantages(rewards: Sequence[float], generations: int, *, eps: float = 1e-8) -> list[float]:
    """Advantages as DanceGRPO computes them with `--use_group`, for consecutive groups of `generations` rewards.

    An unscored picture (NaN) does not count in its group's mean and standard deviation; its own advantage is 0, so it
    contributes no loss.

    Raises:
        ConfigError: the number of rewards is not a multiple of `generations`.
    """
    if generations < 1 or len(rewards) % generations:
        raise ConfigError(f"{len(rewards)} rewards are no groups of {generations}")
    found: list[float] = []
    for begin in range(0, len(rewards), generations):
        group = [None if math.isnan(reward) else reward for reward in rewards[begin : begin + generations]]
        found += [advantage or 0.0 for advantage in group_advantages(group, "mean_std", eps=eps)]
    return found


@dataclass(frozen=True)
class Captions:
    """How many captions `write_captions` wrote, and how many it left out."""

    written: int
    left_out: dict[str, int]
    """How many captions were left out because DanceGRPO's preprocessing drops them, by reason."""


def write_captions(tasks: Iterable[Public], path: Path | str) -> Captions:
    """Write tasks' prompts as the text file that DanceGRPO's preprocessing scripts read (`--prompt_dir`).

    Each line is one caption. Captions that the scripts would drop silently (with Chinese characters, or beyond the
    first 50 000) and empty ones are left out and counted.
    """
    written, left_out = 0, dict[str, int]()
    with Path(path).open("w", encoding="utf-8") as file:
        for task in tasks:
            caption = " ".join(_words(task).split())
            why = _why_left_out(caption, written)
            if why is not None:
                left_out[why] = left_out.get(why, 0) + 1
                continue
            file.write(caption + "\n")
            written += 1
    return Captions(written, left_out)


def _why_left_out(caption: str, written: int) -> str | None:
    if not caption:
        return "empty"
    if _CHINESE.search(caption):
        return "chinese"
    return "past_50000" if written >= _MOST_CAPTIONS else None


def _words(task: Public) -> str:
    """The prompt's text; for a conversation, the text of the last user message."""
    if isinstance(task.prompt, str):
        return task.prompt
    return next((message.text for message in reversed(task.prompt) if message.role == "user"), "")


def _encoded(image: Picture) -> dict[str, str]:
    if isinstance(image, (str, Path)):
        content = Path(image).read_bytes()
    elif isinstance(image, (bytes, bytearray)):
        content = bytes(image)
    elif hasattr(image, "save"):
        buffer = BytesIO()
        image.save(buffer, format="PNG")
        content = buffer.getvalue()
    else:
        raise ConfigError(f"{type(image).__name__} is no picture: give a Pillow image, encoded bytes or a path")
    return {"base64": base64.b64encode(content).decode()}


def _requests(encoded: Sequence[Mapping[str, str]]) -> list[tuple[int, int]]:
    """Split the pictures into requests within the size limits: a (begin, end) range for each request."""
    cuts: list[tuple[int, int]] = []
    begin = size = 0
    for place, each in enumerate(encoded):
        length = len(each.get("base64", ""))
        if place > begin and (size + length > _MOST_BYTES or place - begin >= MOST_IMAGES):
            cuts.append((begin, place))
            begin, size = place, 0
        size += length
    return [*cuts, (begin, len(encoded))] if encoded else cuts


def _finite(rewards: Sequence[float | None]) -> list[float | None]:
    return [reward if reward is not None and math.isfinite(reward) else None for reward in rewards]
