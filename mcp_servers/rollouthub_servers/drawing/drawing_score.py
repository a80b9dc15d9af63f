"""Scores a drawing: which figures of the scene it has, how many others it has, and which claims hold."""

from collections import Counter
from collections.abc import Sequence

from rollouthub.authoring.rewards import composite
from rollouthub.score import Score
from rollouthub_servers.drawing.scene import Claim, Figure, Scene, place_of
from rollouthub_servers.drawing.seen_figures import SeenDrawing, SeenFigure

WEIGHTS = {"figures": 0.5, "layout": 0.4, "colours": 0.1}
_LARGER = 1.5
"""The least ratio of areas at which a figure counts as larger; the description asks for twice the area."""
_MOST_NAMED = 12
"""Most figures that the feedback names."""


def score_of(scene: Scene, seen: SeenDrawing) -> Score:
    """Score a drawing: 1 if it has all figures of the scene and no others, and all claims hold.

    `figures` is the share of figures that are right, of all that are wanted or drawn; `layout` the share of claims that
    hold, times the share of drawn figures that are wanted; `colours` the share of colours, of all wanted or drawn.
    """
    matched = _matched(scene, seen.figures)
    drawn = len(seen.figures) + seen.clutter
    held = [claim for claim in scene.claims if _holds(claim, scene, matched, seen.figures)]
    wanted = Counter(figure.colour for figure in scene.figures)
    same = (wanted & Counter(figure.colour for figure in seen.figures)).total()
    right = len(matched)
    values = {
        "figures": right / (len(scene.figures) + drawn - right),
        "layout": len(held) / len(scene.claims) * right / max(1, drawn),
        "colours": same / (len(scene.figures) + drawn - same),
    }
    missing = [figure.name for index, figure in enumerate(scene.figures) if index not in matched]
    feedback = None
    if missing or drawn > right or len(held) < len(scene.claims):
        said = ", ".join(figure.name for figure in seen.figures[:_MOST_NAMED]) or "nothing"
        failed = [_said(claim, scene.figures) for claim in scene.claims if claim not in held]
        feedback = (
            f"drawn: {said}; missing: {', '.join(missing) or 'nothing'}; not so: {', '.join(failed) or 'nothing'}"
        )
    metrics = {"drawn": float(drawn), "wanted": float(len(scene.figures))}
    return composite(values, WEIGHTS, pass_at=1.0, feedback=feedback, metrics=metrics)


def _matched(scene: Scene, seen: Sequence[SeenFigure]) -> dict[int, SeenFigure]:
    """Figure of the scene → drawn figure of the same colour and kind; those in the right place are taken first."""
    places = {claim.subject: claim.object for claim in scene.claims if claim.kind == "at"}
    found: dict[int, SeenFigure] = {}
    left = list(seen)
    for heeds_places in (True, False):
        for index, figure in enumerate(scene.figures):
            place = places.get(index) if heeds_places else None
            for other in left if index not in found else ():
                if (other.colour, other.kind) != (figure.colour, figure.kind):
                    continue
                if place is None or place == place_of(other.x, other.y):
                    found[index] = other
                    left.remove(other)
                    break
    return found


def _holds(claim: Claim, scene: Scene, matched: dict[int, SeenFigure], seen: Sequence[SeenFigure]) -> bool:
    if claim.kind == "count":
        wanted = scene.figures[claim.subject]
        return claim.object == sum((other.colour, other.kind) == (wanted.colour, wanted.kind) for other in seen)
    subject = matched.get(claim.subject)
    if subject is None:
        return False
    if claim.kind == "at":
        return place_of(subject.x, subject.y) == claim.object
    other = matched.get(claim.object)
    if other is None:
        return False
    one, two = subject.sides, other.sides
    return {
        "left of": one[2] <= two[0],
        "right of": two[2] <= one[0],
        "above": one[3] <= two[1],
        "below": two[3] <= one[1],
        "inside": other.encloses(subject),
        "larger": subject.area >= _LARGER * other.area,
    }[claim.kind]


def _said(claim: Claim, figures: Sequence[Figure]) -> str:
    name = figures[claim.subject].name
    if claim.kind in ("at", "count"):
        return f"{name} {claim.kind} {claim.object}"
    return f"{name} {claim.kind} {figures[claim.object].name}"
