"""Generators of four kinds of scenes: figures in places, in numbers, in relations, and inside each other."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

from rollouthub_servers.drawing.scene import (
    KINDS,
    PLACES,
    SIDE,
    Claim,
    ClaimKind,
    Figure,
    FigureKind,
    Scene,
    listed,
    with_article,
)
from rollouthub_servers.visual.canvas import COLOURS

SceneKind = Literal["places", "counts", "relations", "nested"]
Generator = Callable[[Random, int], Scene]
"""Makes a scene of a level from a random stream."""
HARDEST = 5
"""The highest level; the lowest is 1."""
_THIRD, _FIFTH = SIDE / 3, SIDE / 5
_SMALL, _LARGE, _LARGER = 24, 44, 1.4
"""Two sizes of figures, and the least ratio of sizes at which a figure clearly has more than 1.5 times the area."""


_Name = tuple[str, FigureKind]


def places(random: Random, level: int) -> Scene:
    """Two to six figures, each in one of nine places."""
    cells = random.sample(range(9), level + 1)
    figures = tuple(_figure(random, level, cell, random.uniform(30, 50)) for cell in cells)
    said = [f"{with_article(figure.name)} {PLACES[cell]}" for figure, cell in zip(figures, cells, strict=True)]
    claims = tuple(Claim(kind="at", subject=index, object=cell) for index, cell in enumerate(cells))
    return Scene(words=f"{'; '.join(said)}.", figures=figures, claims=claims)


def counts(random: Random, level: int) -> Scene:
    """Groups of equal figures, with a given number in each group."""
    names = _names(random, level, 2 + level // 2)
    numbers = [random.randint(1, level + 1) for _ in names]
    slots = iter(random.sample(range(25), sum(numbers)))
    figures: list[Figure] = []
    claims: list[Claim] = []
    for (colour, kind), number in zip(names, numbers, strict=True):
        claims.append(Claim(kind="count", subject=len(figures), object=number))
        for slot in (next(slots) for _ in range(number)):
            x, y = (slot % 5 + 0.5) * _FIFTH, (slot // 5 + 0.5) * _FIFTH
            figures.append(Figure(kind=kind, colour=colour, x=x, y=y, size=28))
    said = [
        f"{number} {colour} {kind}{'s' * (number > 1)}" for (colour, kind), number in zip(names, numbers, strict=True)
    ]
    return Scene(words=f"exactly {listed(said)}.", figures=tuple(figures), claims=tuple(claims))


def relations(random: Random, level: int) -> Scene:
    """Figures with claims on their relations: beside, above or below, and larger."""
    names = _names(random, level, 2 + level // 2)
    cells = random.sample(range(9), len(names))
    sizes = [random.choice((_SMALL, _LARGE)) for _ in names]
    figures = tuple(
        Figure(kind=kind, colour=colour, x=_middle(cell)[0], y=_middle(cell)[1], size=size)
        for (colour, kind), cell, size in zip(names, cells, sizes, strict=True)
    )
    true = [claim for pair in _pairs(len(figures)) for claim in _true_claims(figures, *pair, has_sizes=level >= 3)]
    random.shuffle(true)
    chosen = [next(claim for claim in true if index in (claim.subject, claim.object)) for index in range(len(figures))]
    chosen += [claim for claim in true if claim not in chosen][: max(0, level + 1 - len(chosen))]
    claims = tuple(dict.fromkeys(chosen))
    words = f"{listed([with_article(figure.name) for figure in figures])}. {_said(figures, claims)}"
    return Scene(words=words, figures=figures, claims=claims)


def nested(random: Random, level: int) -> Scene:
    """Figures inside larger ones; on higher levels also relations between the larger ones."""
    count = 1 + level // 2
    kinds = KINDS[:2] if level < 3 else KINDS[:3]
    outer: list[_Name] = [(colour, random.choice(KINDS[:2])) for colour in random.sample(COLOURS, count)]
    free = [colour for colour in COLOURS if colour not in [name for name, _ in outer]]
    inside: list[_Name] = [(colour, kind) for colour in free for kind in kinds]
    inner = random.sample(inside, count)
    figures: list[Figure] = []
    for large, small, cell in zip(outer, inner, random.sample(range(9), count), strict=True):
        x, y = _middle(cell)
        figures += (
            Figure(kind=kind, colour=colour, x=x, y=y, size=size)
            for (colour, kind), size in ((large, 60), (small, _SMALL))
        )
    claims = [Claim(kind="inside", subject=index + 1, object=index) for index in range(0, len(figures), 2)]
    neighbours = range(0, len(figures) - 2, 2) if level >= 3 else ()
    claims += (random.choice(_true_claims(figures, first, first + 2, has_sizes=False)) for first in neighbours)
    pairs = zip(figures[::2], figures[1::2], strict=True)
    said = [f"{with_article(outside.name)} with {with_article(inside.name)} inside it" for outside, inside in pairs]
    words = f"{listed(said)}. {_said(figures, [claim for claim in claims if claim.kind != 'inside'])}"
    return Scene(words=words.strip(), figures=tuple(figures), claims=tuple(claims))


GENERATORS: dict[SceneKind, Generator] = {
    "places": places,
    "counts": counts,
    "relations": relations,
    "nested": nested,
}


def _kinds(level: int) -> tuple[FigureKind, ...]:
    return KINDS[: max(3, level + 1)]


def _names(random: Random, level: int, count: int) -> list[_Name]:
    """Different random pairs of colour and kind."""
    return random.sample([(colour, kind) for colour in COLOURS for kind in _kinds(level)], count)


def _figure(random: Random, level: int, cell: int, size: float) -> Figure:
    x, y = _middle(cell)
    return Figure(kind=random.choice(_kinds(level)), colour=random.choice(COLOURS), x=x, y=y, size=round(size))


def _middle(cell: int) -> tuple[float, float]:
    return round((cell % 3 + 0.5) * _THIRD, 1), round((cell // 3 + 0.5) * _THIRD, 1)


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(count) for other in range(one + 1, count)]


def _true_claims(figures: Sequence[Figure], one: int, other: int, *, has_sizes: bool) -> list[Claim]:
    first, second = figures[one], figures[other]
    found: list[Claim] = []
    across: ClaimKind = "left of" if first.x < second.x else "right of"
    down: ClaimKind = "above" if first.y < second.y else "below"
    if first.x != second.x:
        found.append(Claim(kind=across, subject=one, object=other))
    if first.y != second.y:
        found.append(Claim(kind=down, subject=one, object=other))
    # Of the same kind, so that sizes say something about areas.
    if (
        has_sizes
        and first.kind == second.kind
        and max(first.size, second.size) > _LARGER * min(first.size, second.size)
    ):
        large, small = (one, other) if first.size > second.size else (other, one)
        found.append(Claim(kind="larger", subject=large, object=small))
    return found


def _said(figures: Sequence[Figure], claims: Sequence[Claim]) -> str:
    sentences: list[str] = []
    for claim in claims:
        one, other = figures[claim.subject].name, figures[claim.object].name
        if claim.kind == "larger":
            sentences.append(f"The {one} has at least twice the area of the {other}.")
        else:
            sentences.append(f"The {one} is entirely {claim.kind} the {other}.")
    return " ".join(sentences)
