"""Pictures scored by models of transformers: a CLIP with random weights stands for all of that shape."""

import base64
import io
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from PIL import Image

from rollouthub import Message, Public, Score, Secret, Submission, Task, Text, picture
from rollouthub.authoring.rewards import WeightedReward
from rollouthub.authoring.rewards.image_scores import NO_PICTURE, ClipScore, HpsScore
from rollouthub.authoring.rewards.image_text_model import shared_model
from rollouthub.errors import ConfigError, VerifierError
from rollouthub.messages import assistant
from tests.loop_holds import SECONDS, shortest_hold
from tests.trainers.tiny import tiny_model

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
System = Callable[[str], ModuleType]
TASK = Task(Public(id="one", prompt="a red square"), Secret())
SIDE = 32


@pytest.fixture(scope="session")
def clip(system: System, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CLIP of some 30,000 parameters, its tokenizer of bytes, and what prepares its pictures."""
    system("torch")
    transformers: Any = system("transformers")
    tokenizers: Any = system("tokenizers")
    folder = tmp_path_factory.mktemp("clip")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = [*alphabet, *(f"{letter}</w>" for letter in alphabet), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: place for place, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1, "pad_token_id": len(words) - 1}
    transformers.set_seed(0)
    config = transformers.CLIPConfig(
        text_config={**sizes, **ends, "vocab_size": len(words), "max_position_embeddings": 24},
        vision_config={**sizes, "image_size": SIDE, "patch_size": 8},
        projection_dim=16,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}})
    )
    told = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 24, "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return folder


def png(shade: int, size: tuple[int, int] = (40, 60)) -> bytes:
    """A picture with a corner of another colour, so that no two shades are alike."""
    image = Image.new("RGB", size, (shade * 37 % 256, shade * 91 % 256, shade))
    image.paste((255 - shade, shade, 0), (0, 0, size[0] // 2, size[1] // 3))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def shown(content: bytes, mime_type: str | None = None) -> Submission:
    part = picture(content, mime_type)
    return Submission(transcript=(Message(role="assistant", content=(Text(text="Here."), part)),))


def cosines(clip: Path, system: System, text: str, contents: list[bytes]) -> list[float]:
    """What the library says by itself, one picture at a time."""
    transformers: Any = system("transformers")
    torch: Any = system("torch")
    model = transformers.CLIPModel.from_pretrained(clip).eval()
    processor = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    pixels, words = processor.from_pretrained(clip), transformers.AutoTokenizer.from_pretrained(clip)
    found: list[float] = []
    for content in contents:
        with torch.no_grad(), Image.open(io.BytesIO(content)) as opened:
            inputs = {
                **words([text], truncation=True, max_length=24, return_tensors="pt"),
                **pixels(images=opened, return_tensors="pt"),
            }
            logits = model(**inputs).logits_per_image
        found.append(logits[0, 0].item() / math.exp(model.logit_scale.item()))
    return found


async def test_scores_of_a_batch_are_those_of_single_pictures_and_of_the_library(clip: Path, system: System) -> None:
    contents = [png(shade, (40, 60) if shade % 2 else (90, 33)) for shade in range(7)]
    expected = cosines(clip, system, "a red square", contents)
    assert max(expected) - min(expected) > 0.01
    score = ClipScore(model=str(clip), device="cpu", batch_size=4)
    before = shared_model(str(clip), "cpu", 4).passes
    group = await score.score_group(TASK, [shown(content) for content in contents])
    assert shared_model(str(clip), "cpu", 4).passes - before == 2
    assert [each.metrics["cosine"] for each in group] == pytest.approx(expected, abs=1e-5)
    assert [each.reward for each in group] == pytest.approx([2.5 * max(0, cosine) for cosine in expected], abs=1e-5)
    single = await score(TASK, shown(contents[3]))
    assert single.reward == pytest.approx(group[3].reward, abs=1e-5)


async def test_texts_of_other_lengths_in_one_pass_change_nothing(clip: Path, system: System) -> None:
    texts = ["a", "a red square on a blue ground", "two words", "x" * 5000, "\ud800"]
    model = shared_model(str(clip), "cpu", 8)
    together = await model.cosines([(text.encode(errors="replace").decode(), png(5)) for text in texts], 60)
    for text, found in list(zip(texts, together, strict=True))[:3]:
        assert found == pytest.approx(cosines(clip, system, text, [png(5)])[0], abs=1e-5)
    tasks = [Task(Public(id="t", prompt=text), Secret()) for text in texts]
    alone = [await HpsScore(model=str(clip), device="cpu", scale=1.0)(task, shown(png(5))) for task in tasks]
    assert [score.reward for score in alone] == pytest.approx(together, abs=1e-5)


async def test_callers_at_once_share_passes(clip: Path) -> None:
    score = ClipScore(model=str(clip), device="cpu", batch_size=6)
    model = shared_model(str(clip), "cpu", 6)
    found: dict[int, Score] = {}

    async def ask(shade: int) -> None:
        found[shade] = await score(TASK, shown(png(shade)))

    async with anyio.create_task_group() as callers:  # the first of them loads the model, the others wait
        for shade in range(13):
            callers.start_soon(ask, shade)
    assert model.passes <= 4
    for shade in (0, 7, 12):
        assert found[shade].reward == pytest.approx((await score(TASK, shown(png(shade)))).reward, abs=1e-5)


async def test_who_leaves_takes_nobodys_score_along(clip: Path) -> None:
    model = shared_model(str(clip), "cpu", 3)
    found: list[Any] = []

    async def ask() -> None:
        found.append(await model.cosines([("a", png(1))], 60))

    leaving = anyio.CancelScope()

    async def leave() -> None:
        with leaving:
            await ask()

    async with anyio.create_task_group() as callers:
        for caller in (leave, ask, ask):
            callers.start_soon(caller)
        for _ in range(9):  # the first loads the model in its pass, the others wait for it
            await anyio.lowlevel.checkpoint()
        leaving.cancel()
    assert len(found) == 2
    assert found[0] == pytest.approx(found[1], abs=1e-5)


async def test_preferences_are_scaled_by_the_model_or_by_what_is_given(clip: Path) -> None:
    own, bare = (HpsScore(model=str(clip), device="cpu", scale=scale) for scale in (None, 1.0))
    scaled, cosine = await own(TASK, shown(png(3))), await bare(TASK, shown(png(3)))
    assert scaled.reward == pytest.approx(cosine.reward * shared_model(str(clip), "cpu", 16).scale)
    assert cosine.reward == cosine.metrics["cosine"]


async def test_what_is_no_picture_is_the_agents_and_keeps_no_other_from_its_score(clip: Path) -> None:
    bad = [Submission(answer="no"), shown(b"nothing", "image/png"), Submission(answer="data:image/png;base64,!!")]
    bomb = io.BytesIO()
    Image.new("1", (9000, 9000)).save(bomb, "PNG")
    said = f"![it](data:image/png;base64,{base64.b64encode(png(2)).decode()})"
    good = [shown(png(2)), Submission(transcript=(assistant(said),))]
    scores = await ClipScore(model=str(clip), weight=1.0).score_group(
        TASK, [good[0], *bad, shown(bomb.getvalue()), good[1]]
    )
    assert [score.reward for score in scores[1:5]] == [0.0] * 4
    assert scores[1].feedback == NO_PICTURE
    assert all(score.feedback for score in scores[1:5])
    assert scores[0].metrics == scores[5].metrics != {}


async def test_a_reward_may_have_it_among_its_parts(clip: Path) -> None:
    drawn = partial(ClipScore, model=str(clip), device="cpu", picture=lambda submission: png(len(submission.final)))
    reward = WeightedReward(
        {"fits": drawn(), "brief": lambda task, said: len(said.final) < 9}, {"fits": 1, "brief": 0.5}
    )
    score = await reward(TASK, Submission(answer="abc"))
    assert score.components["brief"].value == 1.0
    assert score.components["fits"].value == (await drawn()(TASK, Submission(answer="xyz"))).reward


async def test_devices_that_are_not_there_are_named(clip: Path, system: System) -> None:
    torch: Any = system("torch")
    count = torch.cuda.device_count()
    for device, problem in ((f"cuda:{count + 7}", f"torch sees {count} of CUDA"), ("toaster", "is no device")):
        with pytest.raises(ConfigError, match=problem):
            await ClipScore(model=str(clip), device=device).prepare()
        with pytest.raises(ConfigError, match=problem):
            await ClipScore(model=str(clip), device=device)(TASK, shown(png(1)))
    expected = (await ClipScore(model=str(clip), device="cpu")(TASK, shown(png(1)))).reward
    for device in ("auto", *(f"cuda:{place}" for place in range(count))):
        found = await ClipScore(model=str(clip), device=device)(TASK, shown(png(1)))
        assert found.reward == pytest.approx(expected, abs=1e-3)


async def test_models_that_are_none_are_refused(clip: Path, system: System, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        await ClipScore(model=str(tmp_path / "nothing")).prepare()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="cannot be loaded"):
        await ClipScore(model=str(tmp_path / "empty")).prepare()
    with pytest.raises(ConfigError, match="type 'qwen2'"):
        await ClipScore(model=str(tiny_model(tmp_path / "words"))).prepare()
    transformers: Any = system("transformers")
    model = transformers.CLIPModel.from_pretrained(clip)
    weights = {name: value for name, value in model.state_dict().items() if "visual_projection" not in name}
    model.save_pretrained(tmp_path / "half", state_dict=weights)
    with pytest.raises(ConfigError, match=r"lacks 1 of its weights, such as 'visual_projection.weight'"):
        await ClipScore(model=str(tmp_path / "half")).prepare()


async def test_a_score_that_does_not_come_in_time_is_no_score(clip: Path) -> None:
    score = ClipScore(model=str(clip), device="cpu", batch_size=5, timeout_seconds=1e-6)
    with pytest.raises(VerifierError, match="scored no picture within 1e-06 s"):
        await score(TASK, shown(png(1)))


async def test_a_pass_holds_up_nobody(clip: Path) -> None:
    score = ClipScore(model=str(clip), device="cpu", batch_size=2)
    group = [shown(png(shade, (2000, 1500))) for shade in range(6)]

    async def play(longest: list[float]) -> None:
        await score.score_group(TASK, group)

    assert await shortest_hold(play) < SECONDS
