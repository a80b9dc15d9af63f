"""`visual`: pictures that show what their answers say, and answers found in what models say."""

import io
from itertools import islice
from typing import Any, get_args

import pytest
from PIL import Image

from rollouthub import BadRow, Deadlines, Message, Submission, Text
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant, media_of
from rollouthub_servers.visual import Kind, Visual, VisualConfig
from rollouthub_servers.visual.answers import find_answer
from rollouthub_servers.visual.canvas import PALETTE, Canvas
from rollouthub_servers.visual.clocks import time_of
from rollouthub_servers.visual.geometry import area
from rollouthub_servers.visual.grids import largest_group

Shown = tuple[str, Image.Image, str]


def tasks(count: int, split: str = "test", seed: int = 0, **settings: Any) -> list[Any]:
    return list(islice(Visual.tasks(VisualConfig(**settings), split, seed), count))


def shown(count: int, **settings: Any) -> list[Shown]:
    """Questions, their pictures, and the answers."""
    found: list[Shown] = []
    for task in tasks(count, **settings):
        (message,) = task.public.prompt
        (part,) = media_of([message])
        words = next(part.text for part in message.content if isinstance(part, Text))
        with Image.open(io.BytesIO(part.read() or b"")) as opened:
            found.append((words, opened.convert("RGB"), task.secret.answer))
    return found


def test_the_same_seed_draws_the_same_and_another_seed_or_split_other_pictures() -> None:
    digests = [task.digest for task in tasks(40)]
    assert digests == [task.digest for task in tasks(40, size=50)]
    # Of the easiest there are so few that two may be alike.
    assert len(set(digests) & {task.digest for task in tasks(40, seed=1)}) <= 2
    prompts = {str(task.public.prompt) for task in tasks(40)}
    assert len(prompts & {str(task.public.prompt) for task in tasks(40, split="train")}) <= 2


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("level", range(1, 6))
async def test_the_reference_is_right_and_silence_is_wrong(kind: Kind, level: int) -> None:
    config = VisualConfig(kinds=(kind,), easiest=level, hardest=level, size=25)
    host = InProcessHost("visual", Visual, config)
    count = 0
    async for card in host.tasks("test", 0):
        assert not isinstance(card, BadRow)
        assert card.public.metadata == {"level": level}
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            reference = await episode.reference()
            assert (await episode.verify(Submission(transcript=tuple(reference)))).reward == 1.0
        for said in ("", "I cannot tell."):
            submission = Submission(transcript=(assistant(said),))
            assert (await host.score(card, submission, seed=0, deadlines=Deadlines())).reward == 0.0
        count += 1
    assert count == 25


def test_pictures_are_small_and_read_by_any_decoder() -> None:
    for _, image, _ in shown(80):
        assert 90 <= min(image.size) <= max(image.size) <= 520
    for task in tasks(80):
        assert sum(len(part.read() or b"") for part in media_of(task.public.prompt)) < 20_000


def test_grids_have_as_many_cells_of_a_colour_as_the_answer_says() -> None:
    asked = [each for each in shown(200, kinds=("grids",)) if each[0].startswith("How many cells are ")]
    assert len(asked) > 20
    for words, image, answer in asked:
        colour = words.removeprefix("How many cells are ").partition("?")[0]
        middles = range(16, image.width, 32)
        seen = [image.getpixel((x, y)) for x in middles for y in middles]
        assert str(seen.count(PALETTE[colour])) == answer


def test_the_area_of_a_figure_is_the_area_that_is_coloured() -> None:
    asked = [each for each in shown(120, kinds=("geometry",)) if each[0].startswith("What is the area")]
    assert len(asked) > 20
    for _, image, answer in asked:
        pixels = image.tobytes()
        colours = [pixels[at : at + 3] for at in range(0, len(pixels), 3)]
        plain = {bytes(PALETTE[name]) for name in ("white", "grey")}
        coloured = sum(colour not in plain for colour in colours)
        # The lines of the grid cover a part of each square.
        assert abs(coloured / 21**2 - int(answer)) < 0.12 * int(answer) + 0.5


def test_a_bar_is_as_high_as_the_answer_says() -> None:
    asked = [each for each in shown(200, kinds=("charts",)) if each[0].startswith("What is the value of bar ")]
    assert len(asked) > 20
    for words, image, answer in asked:
        place = "ABCDEFGHJK".index(words.removeprefix("What is the value of bar ")[0])
        x = 44 + 8 + place * 36 + 12
        plain = {PALETTE["white"], PALETTE["grey"]}
        height = sum(image.getpixel((x, y)) not in plain for y in range(10, 220))
        assert height == 10 * int(answer)


def test_the_helpers_know_their_geometry() -> None:
    assert [time_of(minutes) for minutes in (0, 61, 719, 725)] == ["12:00", "1:01", "11:59", "12:05"]
    assert area([(0, 0), (4, 0), (4, 3), (0, 3)]) == 12
    assert largest_group([["red", "blue"], ["red", "red"]], "red") == 3
    canvas = Canvas(9, 9)
    canvas.polygon([(1, 1), (8, 1), (8, 8), (1, 8)], "red")
    assert (canvas.colour_at(0, 0), canvas.colour_at(4, 4)) == ("white", "red")


@pytest.mark.parametrize(
    ("text", "form", "choices", "answer"),
    [
        ("There are 3, no, 4 of them.", "number", (), "4"),
        ("It is 03:05, I think", "time", (), "3:05"),
        ("At first 2:00, later 14.07", "time", (), "2:07"),
        ("12:34:56", "time", (), None),
        ("Not blue. Red!", "word", ("red", "blue"), "red"),
        ("a bar, B", "word", ("A", "B"), "B"),
        ("a tall bar", "word", ("A", "B"), None),
        ("reddish", "word", ("red",), None),
        ("red" + " x" * 2000, "word", ("red",), None),
    ],
)
def test_answers_are_found_at_the_end(text: str, form: Any, choices: tuple[str, ...], answer: str | None) -> None:
    assert find_answer(text, form, choices) == answer


def test_a_prompt_shows_the_picture_first_and_says_what_to_do() -> None:
    (task,) = tasks(1)
    (message,) = task.public.prompt
    assert isinstance(message, Message)
    assert message.text.endswith("Give the answer as the last thing you say.")
