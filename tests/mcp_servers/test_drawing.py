"""`drawing`: references that are right, drawings that are not, and documents that would do harm."""

import base64
import io
import math
import random
from typing import Any, get_args

import pytest
from PIL import Image

from rollouthub import BadRow, Deadlines, Message, Score, Submission, Text, picture
from rollouthub.hosting import InProcessHost
from rollouthub.messages import assistant
from rollouthub_servers.drawing import Drawing, DrawingConfig
from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.drawing.drawing_score import score_of
from rollouthub_servers.drawing.drawn_answer import drawn, grid_of
from rollouthub_servers.drawing.generators import SceneKind
from rollouthub_servers.drawing.png_reader import read_png
from rollouthub_servers.drawing.scene import KINDS, PLACES, Claim, Figure, Scene, place_of, svg_of
from rollouthub_servers.drawing.seen_figures import look_at
from rollouthub_servers.drawing.svg import MOST_CHARACTERS, MOST_ELEMENTS, read_svg
from rollouthub_servers.drawing.svg_paint import colour_name
from rollouthub_servers.visual.canvas import COLOURS

TWO = Scene(
    words="a red circle in the top left; a blue square in the centre.",
    figures=(
        Figure(kind="circle", colour="red", x=33, y=33, size=40),
        Figure(kind="square", colour="blue", x=100, y=100, size=40),
    ),
    claims=(Claim(kind="at", subject=0, object=0), Claim(kind="at", subject=1, object=4)),
)
RIGHT = '<circle cx="33" cy="33" r="20" fill="red"/><rect x="80" y="80" width="40" height="40" fill="blue"/>'


def tasks(count: int, split: str = "test", seed: int = 0, **settings: Any) -> list[Any]:
    return list(Drawing.tasks(DrawingConfig(size=count, **settings), split, seed))


def score(said: Submission | str, scene: Scene = TWO) -> Score:
    (task,) = tasks(1)
    changed = type(task)(task.public, task.secret.model_copy(update={"scene": scene}))
    return Drawing(changed, DrawingConfig(), 0).verify(Submission(answer=said) if isinstance(said, str) else said)


def document(shapes: str, attributes: str = 'viewBox="0 0 200 200"') -> str:
    return f"<svg {attributes}>{shapes}</svg>"


def test_the_same_seed_asks_the_same_and_another_seed_or_split_something_else() -> None:
    digests = [task.digest for task in tasks(60)]
    assert digests == [task.digest for task in tasks(70)][:60]
    for other in (tasks(60, seed=1), tasks(60, split="train")):
        assert len(set(digests) & {task.digest for task in other}) <= 2


@pytest.mark.parametrize("kind", get_args(SceneKind))
@pytest.mark.parametrize("level", range(1, 6))
async def test_the_reference_is_right_and_silence_is_wrong(kind: SceneKind, level: int) -> None:
    host = InProcessHost("drawing", Drawing, DrawingConfig(kinds=(kind,), easiest=level, hardest=level, size=6))
    count = 0
    async for card in host.tasks("test", 0):
        assert not isinstance(card, BadRow)
        assert card.public.metadata == {"level": level}
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            reference = await episode.reference()
            found = await episode.verify(Submission(transcript=tuple(reference)))
            assert (found.reward, found.passed, found.feedback) == (1.0, True, None)
        for said in ("", "I cannot draw.", document("")):
            submission = Submission(transcript=(assistant(said),))
            assert (await host.score(card, submission, seed=0, deadlines=Deadlines())).reward == 0.0
        count += 1
    assert count == 6


def test_drawings_that_are_the_same_for_every_task_earn_little() -> None:
    squares = [Figure(kind="square", colour=each, x=40 * n + 20, y=100, size=26) for n, each in enumerate(COLOURS[:5])]
    grid = [
        Figure(kind=KINDS[n // 6], colour=COLOURS[n % 6], x=33 * (n % 6) + 17, y=66 * (n // 6) + 33, size=26)
        for n in range(18)
    ]
    crowd = [
        Figure(kind=KINDS[n % 5], colour=COLOURS[n // 5 % 6], x=20 * (n % 10) + 10, y=20 * (n // 10) + 10, size=15)
        for n in range(100)
    ]
    asked = tasks(200)
    for figures in (squares, grid, crowd, crowd[:1], [Figure(kind="square", colour="red", x=100, y=100, size=200)]):
        seen = look_at(grid_of(Submission(answer=svg_of(figures))))
        rewards = [score_of(task.secret.scene, seen).reward for task in asked]
        assert sum(rewards) / len(rewards) < 0.15


def test_parts_of_a_picture_are_worth_parts_of_the_reward() -> None:
    assert score(document(RIGHT)).reward == 1.0
    moved = score(document(RIGHT.replace('cx="33"', 'cx="160"')))
    assert (moved.components["figures"].value, moved.components["layout"].value) == (1.0, 0.5)
    assert moved.feedback == "drawn: blue square, red circle; missing: nothing; not so: red circle at 0"
    half = score(document(RIGHT[: RIGHT.index("<rect")]))
    assert half.components["figures"].value == 0.5
    green = score(document(RIGHT.replace("blue", "green")))
    assert 0 < green.reward < half.reward
    assert score(document(RIGHT + '<circle cx="160" cy="160" r="20" fill="red"/>')).reward == pytest.approx(
        0.5 * 2 / 3 + 0.4 * 2 / 3 + 0.1 * 2 / 3
    )


HIDDEN = {
    "outside the canvas": '<circle cx="400" cy="33" r="20" fill="green"/>',
    "under another": '<circle cx="100" cy="100" r="15" fill="green"/>',
    "not filled": '<circle cx="160" cy="160" r="20" fill="none"/>',
    "white": '<circle cx="160" cy="160" r="20" fill="white"/>',
    "of no size": '<circle cx="160" cy="160" r="0" fill="green"/>',
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_not_to_be_seen_counts_neither_for_nor_against(name: str) -> None:
    hidden = HIDDEN[name]
    assert score(document(hidden + RIGHT)).reward == 1.0
    assert score(document(hidden)).reward == 0.0


@pytest.mark.parametrize(
    "over",
    [
        '<rect x="20" y="30" width="26" height="6" fill="white"/>',  # a gap
        '<rect x="33" y="13" width="20" height="20" fill="white"/>',  # a bite
        '<circle cx="45" cy="33" r="20" fill="red"/>',  # two in one
        '<rect x="40" y="40" width="60" height="60" fill="yellow"/>',  # another on top
    ],
)
def test_figures_that_are_cut_merged_or_covered_are_not_seen(over: str) -> None:
    assert score(document(RIGHT + over)).components["figures"].value < 1.0


def test_small_stuff_and_thin_outlines_are_no_figures_but_much_of_it_counts() -> None:
    outlined = RIGHT.replace("/>", ' stroke="black" stroke-width="2"/>')
    assert score(document(outlined)).reward == 1.0
    lines = "".join(f'<line x1="0" y1="{y}" x2="200" y2="{y}" stroke="black"/>' for y in range(124, 200, 4))
    assert 0.4 < score(document(RIGHT + lines)).reward < 0.9


@pytest.mark.parametrize(("sides", "kind"), [(3, "triangle"), (4, "square"), (5, None), (6, None), (64, "circle")])
def test_figures_are_known_however_they_are_turned(sides: int, kind: str | None) -> None:
    stream = random.Random(sides)
    for _ in range(40):
        radius, turn = stream.uniform(14, 60), stream.uniform(0, 2 * math.pi)
        angles = [turn + 2 * math.pi * n / sides for n in range(sides)]
        points = " ".join(f"{100 + radius * math.sin(a):.2f},{100 - radius * math.cos(a):.2f}" for a in angles)
        (seen,) = look(document(f'<polygon points="{points}" fill="red"/>'))
        assert seen.kind == kind, points


def look(svg: str) -> Any:
    return look_at(grid_of(Submission(answer=svg))).figures


SAME_CIRCLE = {
    "a path of arcs": '<path d="M 53 33 A 20 20 0 1 1 13 33 a 20 20 0 1 1 40 0 z" fill="#d00"/>',
    "curves": '<path d="M33 13C44 13 53 22 53 33S44 53 33 53 13 44 13 33 22 13 33 13Z" fill="rgb(255, 0, 0)"/>',
    "a group": '<g transform="translate(33,33) scale(2)" style="fill: red"><g><circle r="10"/></g></g>',
    "an ellipse": '<ellipse cx="33" cy="33" rx="20" ry="20" fill="#ff0000" opacity="1"/>',
    "a thick line": '<circle cx="33" cy="33" r="10" fill="red" stroke="red" stroke-width="20"/>',
    "turned": '<circle cx="33" cy="-33" r="20" transform="rotate(90)" fill="red"/>',
    "mirrored": '<circle cx="-33" cy="33" r="20" transform="matrix(-1 0 0 1 0 0)" fill="crimson"/>',
}


@pytest.mark.parametrize("name", SAME_CIRCLE)
def test_one_figure_may_be_written_in_many_ways(name: str) -> None:
    assert score(document(SAME_CIRCLE[name] + RIGHT[RIGHT.index("<rect") :])).reward == 1.0


def test_a_document_may_have_its_own_units_and_stand_among_words() -> None:
    small = '<circle cx="3.3" cy="3.3" r="2" fill="red"/><path d="M8 8H12V12h-4Z" fill="blue"/>'
    for attributes in ('viewBox="0 0 20 20" width="100%"', 'width="20px" height="20"'):
        said = f"Such as {document('<text>no</text>')}, or rather\n```svg\n{document(small, attributes)}\n```\nDone."
        assert score(said).reward == 1.0


NOT_READ = ("an external entity", "surrogates")
"""What stands before the document is left out, and what is no text replaced."""
HARMFUL = {
    "entities": '<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><svg>&b;</svg>',
    "an external entity": '<!DOCTYPE svg SYSTEM "file:///etc/passwd"><svg></svg>',
    "an entity within": '<svg viewBox="0 0 200 200">&xxe;</svg>',
    "an instruction": '<svg><?xml-stylesheet href="file:///etc/passwd"?></svg>',
    "a script": document("<script>1</script>"),
    "an image": document('<image href="file:///etc/passwd"/>'),
    "a use": document('<use href="#a"/>'),
    "a foreign object": document("<foreignObject/>"),
    "a style sheet": document("<style>@import url(http://127.0.0.1/)</style>"),
    "a link on a shape": document('<rect href="http://127.0.0.1/" width="9" height="9"/>'),
    "a handler": document('<rect onload="alert(1)" width="9" height="9"/>'),
    "a filter": document('<rect filter="url(#a)" width="9" height="9"/>'),
    "half a shape": document('<rect opacity="0.5" width="9" height="9"/>'),
    "another document": document(document("")),
    "too many elements": document("<g/>" * MOST_ELEMENTS),
    "too deep": document("<g>" * 40 + "</g>" * 40),
    "too long": document(" " * MOST_CHARACTERS),
    "too many points": document(f'<path d="M0 0{"H1V1" * 3000}"/>'),
    "too many colours": document("".join(f'<rect fill="#0000{n:02x}"/>' for n in range(99))),
    "too long to draw": document(f'<path d="M0 0{"V200V0" * 1900}" stroke="red" stroke-width="399"/>'),
    "an endless number": document('<rect width="1e400" height="9"/>'),
    "no number": document('<rect width="nan" height="9"/>'),
    "far away by steps": document('<g transform="scale(1e6)"><g transform="scale(1e6)"><rect width="9"/></g></g>'),
    "an unknown colour": document('<rect fill="url(#a)" width="9" height="9"/>'),
    "no XML": "<svg><rect></svg>",
    "half a path": document('<path d="M 1 2 L 3"/>'),
    "a path of words": document('<path d="M 1 2 hello"/>'),
    "no view": document("", 'viewBox="0 0 0 200"'),
    "NUL": document("\0"),
    "surrogates": document("\ud800"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_documents_that_would_do_harm_or_that_nobody_can_draw_are_refused_by_a_sentence(name: str) -> None:
    if name not in NOT_READ:
        with pytest.raises(BadDrawing):
            drawn(HARMFUL[name])
    found = score(HARMFUL[name])
    assert (found.reward, found.passed) == (0.0, False)
    assert found.feedback


def png(image: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue()


def rendered(side: int) -> Image.Image:
    with Image.open(io.BytesIO(drawn(document(RIGHT)).png())) as opened:
        return opened.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
@pytest.mark.parametrize("side", [64, 200, 512])
def test_a_png_is_read_as_any_decoder_reads_it_and_scored_like_the_document(mode: str, side: int) -> None:
    image = rendered(side).quantize(64) if mode == "P" else rendered(side).convert(mode)
    content = png(image)
    pixels, expected = read_png(content), image.convert("RGB")
    for x, y in [(n * side // 97 % side, n * side // 89 % side) for n in range(300)]:
        assert pixels.colour_at(x, y) == expected.getpixel((x, y))
    said = f"![drawing](data:image/png;base64,{base64.b64encode(content).decode()})"
    assert score(said).reward == 1.0
    shown = Message(role="assistant", content=(Text(text="Here it is."), picture(content)))
    assert score(Submission(transcript=(shown,))).reward == 1.0


def test_grey_and_see_through_pixels_lie_on_white() -> None:
    grey = Image.new("LA", (9, 9), (0, 0))
    assert read_png(png(grey)).colour_at(4, 4) == (255, 255, 255)
    assert read_png(png(Image.new("L", (9, 9), 7))).colour_at(4, 4) == (7, 7, 7)
    striped = Image.new("1", (9, 9))
    striped.putpixel((4, 4), 1)
    assert [read_png(png(striped)).colour_at(x, 4) for x in (3, 4)] == [(0, 0, 0), (255, 255, 255)]
    clear = Image.new("P", (9, 9), 0)
    clear.putpalette([200, 0, 0])
    assert read_png(png(clear, transparency=0)).colour_at(4, 4) == (255, 255, 255)


def test_pictures_that_are_damaged_huge_or_of_another_sort_are_refused() -> None:
    good = png(Image.new("RGB", (32, 32), "red"))
    bad = [good[:-30], good[:60] + b"\0" + good[61:], b"GIF89a" + good, b""]
    bad += [png(Image.new("RGB", (1200, 8))), png(Image.new("I;16", (9, 9)))]
    for content in bad:
        with pytest.raises(BadDrawing):
            read_png(content)
        assert score(f"data:image/png;base64,{base64.b64encode(content).decode()}").reward == 0.0
    assert score("data:image/png;base64,!!!").reward == 0.0
    # A few bytes that unpack to gigabytes: no more is unpacked than the header says there is.
    bomb = png(Image.new("L", (1024, 1024), 0))
    assert len(bomb) < 3000
    assert score(f"data:image/png;base64,{base64.b64encode(bomb).decode()}").reward == 0.0


async def test_an_agent_may_look_at_its_drawing_before_it_hands_it_in() -> None:
    host = InProcessHost("drawing", Drawing, DrawingConfig(size=1))
    card = await anext(aiter(host.tasks("test", 0)))
    assert not isinstance(card, BadRow)
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        seat = next(iter(episode.seats.values()))
        shown = await seat.call_tool("look", {"svg": document(RIGHT)})
        image = next(block for block in shown.content if block.type == "image")
        with Image.open(io.BytesIO(base64.b64decode(image.data))) as opened:
            assert opened.convert("RGB").getpixel((100, 100)) == (0, 0, 255)
        refused = await seat.call_tool("look", {"svg": document("<text/>")})
        assert refused.is_error
        assert "<text> is not drawn here; use g, rect" in refused.content[0].model_dump_json()


def test_a_document_type_is_refused_before_anything_of_it_is_read() -> None:
    with pytest.raises(BadDrawing, match="document types, entities"):
        read_svg('<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]><svg>&a;</svg>')


def test_words_name_every_figure_and_every_place() -> None:
    for task in tasks(120):
        scene, prompt = task.secret.scene, task.public.prompt
        assert all(figure.name in prompt for figure in scene.figures)
        for claim in scene.claims:
            if claim.kind == "at":
                assert PLACES[claim.object] in prompt
        assert "</svg>" in prompt
    assert [place_of(10, 10), place_of(199, 10), place_of(100, 100), place_of(0, 250)] == [0, 2, 4, 6]


def test_colours_are_called_by_their_hue() -> None:
    said = {"red": "#c00000", "orange": "#ff8800", "yellow": "#ffff00", "green": "#008000", "blue": "#1f77dc"}
    said |= {"purple": "#8000ff", "white": "#fafafa", "grey": "#808080", "black": "#101010", "other": "#ffc0cb"}
    for name, colour in said.items():
        red, green, blue = bytes.fromhex(colour[1:])
        assert colour_name((red, green, blue)) == name
