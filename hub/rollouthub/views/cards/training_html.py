"""What a trainer gets of a rollout, as HTML: rows, stretches, ids, mask, logprobs and versions."""

from collections.abc import Callable, Iterable

from rollouthub.statistics.amounts import NONE, count, turn_number
from rollouthub.views.cards.training_pieces import MOST_VALUES, Stretch, TrainingPiece, TrainingView
from rollouthub.views.markup import Markup, join, tag


def training_html(view: TrainingView, turn_link: Callable[[int], str]) -> Markup:
    """The rows of a rollout; `turn_link` gives the address of a turn by its index."""
    rows = [_row(piece, number, len(view.pieces) + view.left, turn_link) for number, piece in enumerate(view.pieces, 1)]
    silent = [
        join(tag("dt", tag("a", turn_number(index), href=turn_link(index))), tag("dd", why))
        for index, why in view.silent
    ]
    if view.refused:
        lead = tag("p", f"No trainer gets this rollout: {view.refused}.", class_="notice warn")
    else:
        learnt = sum(piece.learnt for piece in view.pieces)
        total = sum(piece.tokens for piece in view.pieces)
        lead = tag(
            "p",
            f"{count(len(view.pieces) + view.left, 'training row')} of {count(total, 'token')}, "
            f"{learnt:,} of them learnt from.",
        )
    return tag(
        "section",
        tag("h3", "What the trainer gets"),
        lead,
        rows,
        tag("p", f"… {count(view.left, 'more row')}", class_="soft") if view.left else None,
        [tag("h4", "Turns in no row"), tag("dl", silent, class_="fields")] if silent else None,
        class_="training",
        aria_label="What the trainer gets",
    )


def _row(piece: TrainingPiece, number: int, total: int, turn_link: Callable[[int], str]) -> Markup:
    head = f"row {number:,} of {total:,} · {piece.seat} · {count(piece.tokens, 'token')}, {piece.learnt:,} learnt from"
    heads = ("written by", "tokens", "learnt from", "mean logprob", "policy", "")
    body = [tag("tr", _cells(stretch, turn_link)) for stretch in piece.stretches]
    grid = tag(
        "table",
        tag("thead", tag("tr", [tag("th", name, scope="col") if name else tag("td") for name in heads])),
        tag("tbody", body),
    )
    return tag(
        "div",
        tag("h4", head),
        tag("p", f"A row of its own because {piece.begins}.", class_="soft") if piece.begins else None,
        tag("div", grid, class_="wide", tabindex="0", role="group", aria_label=f"Row {number}"),
        tag("p", f"… {count(piece.left, 'more part')}", class_="soft") if piece.left else None,
        class_="part",
    )


def _cells(stretch: Stretch, turn_link: Callable[[int], str]) -> Iterable[Markup]:
    versions = sorted({version for version in stretch.versions if version >= 0})
    mean = stretch.mean_logprob
    who: str = "prompt" if stretch.start == 0 else "environment"
    if stretch.turn is not None:
        who = tag("a", turn_number(stretch.turn), href=turn_link(stretch.turn))
    yield tag("td", who)
    yield tag("td", f"{len(stretch.ids):,}")
    yield tag("td", f"{stretch.learnt:,}")
    yield tag("td", NONE if mean is None else f"{mean:.3f}")
    yield tag(
        "td", NONE if not versions else f"{versions[0]}" if len(versions) == 1 else f"{versions[0]}–{versions[-1]}"
    )
    yield tag(
        "td", tag("details", tag("summary", "values"), tag("dl", _values(stretch), class_="fields"), class_="raw")
    )


def _values(stretch: Stretch) -> Iterable[Markup]:
    yield _listed("ids", map(str, stretch.ids[:MOST_VALUES]), len(stretch.ids))
    yield _listed("mask", map(str, stretch.mask[:MOST_VALUES]), len(stretch.mask))
    if stretch.turn is not None:
        logprobs = (f"{value:.4f}" for value in stretch.logprobs[:MOST_VALUES])
        yield _listed("logprobs", logprobs, len(stretch.logprobs))
        yield _listed("versions", map(str, stretch.versions[:MOST_VALUES]), len(stretch.versions))


def _listed(name: str, values: Iterable[str], total: int) -> Markup:
    more = f" … {total - MOST_VALUES:,} more" if total > MOST_VALUES else ""
    return join(tag("dt", name), tag("dd", tag("code", f"{' '.join(values)}{more}")))
