"""`drawing`: pictures to draw from a description, checked by their shapes and colours; nothing to download."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from pydantic import Field

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    picture,
    tool,
)
from rollouthub.authoring.rewards import composite
from rollouthub.messages import Media, assistant
from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.drawing.drawing_score import WEIGHTS, score_of
from rollouthub_servers.drawing.drawn_answer import drawn, grid_of
from rollouthub_servers.drawing.generators import GENERATORS, HARDEST, SceneKind
from rollouthub_servers.drawing.scene import SIDE, Scene, svg_of
from rollouthub_servers.drawing.seen_figures import look_at
from rollouthub_servers.drawing.svg import SHAPES
from rollouthub_servers.visual import canvas

_PROMPT = f"""Draw this picture: {{words}}

There is nothing else in it. The ground is white. Each figure has one plain colour and no outline, and is at least 20 \
across; no figure touches another, unless it is said to be inside of it, where it is on top. A rectangle is at least \
twice as long as it is wide, and a ring shows the ground in its middle. Write an SVG document of {SIDE} by {SIDE}: \
<svg viewBox="0 0 {SIDE} {SIDE}">...</svg>, with the elements {", ".join(SHAPES)} and g. The last document that you \
write counts. If you can make pictures, a PNG instead is fine."""


class DrawingConfig(EnvironmentConfig):
    """Number, kinds and difficulty of the descriptions."""

    size: int = Field(default=1000, ge=1)
    """Number of tasks in each split; they are generated lazily, and a larger size begins with the same tasks."""
    kinds: tuple[SceneKind, ...] = Field(default=("places", "counts", "relations", "nested"), min_length=1)
    """Kinds of scenes, used in turn."""
    easiest: int = Field(default=1, ge=1, le=HARDEST)
    """The lowest level."""
    hardest: int = Field(default=HARDEST, ge=1, le=HARDEST)
    """The highest level; each task's level is drawn at random between the two."""


class DrawingSecret(Secret):
    """The scene that the picture must show."""

    scene: Scene


class Drawing(Environment[DrawingConfig, Public, DrawingSecret]):
    """One description and one drawing of it."""

    default_agent = "single_turn"
    scores_transcripts = True

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """`test` and `train`, of the same kind, from separate random streams."""
        return ("test", "train")

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The canvas of `visual`, on which drawings are rendered."""
        return (Path(canvas.__file__),)

    @classmethod
    def tasks(cls, config: DrawingConfig, split: str, seed: int) -> Iterator[Task[Public, DrawingSecret]]:
        """Generate the descriptions lazily, each from its own random stream."""
        levels = range(config.easiest, max(config.easiest, config.hardest) + 1)
        for index in range(config.size):
            # A string seed is hashed, so that neighbouring seeds share nothing.
            random = Random(f"{seed}/{split}/{index}")
            kind = config.kinds[index % len(config.kinds)]
            level = random.choice(levels)
            scene = GENERATORS[kind](random, level)
            prompt = _PROMPT.format(words=scene.words)
            public = Public(id=f"{split}/{index}", prompt=prompt, source=kind, metadata={"level": level})
            yield Task(public, DrawingSecret(scene=scene))

    @tool
    def look(self, svg: str) -> Media:
        """See a drawing as a picture, before you hand it in.

        Args:
            svg: The SVG document.
        """
        try:
            return picture(drawn(svg).png())
        except BadDrawing as error:
            raise ToolError(f"this cannot be drawn: {error}") from None

    def reference(self) -> Sequence[Message]:
        """An SVG of the scene from which the description was made."""
        return (assistant(svg_of(self.task.secret.scene.figures)),)

    def verify(self, submission: Submission) -> Score:
        """Find the figures in the pixels, and compare them with the scene; runs in a thread."""
        try:
            grid = grid_of(submission)
        except BadDrawing as error:
            feedback = f"{error}; expected {self.task.secret.scene.words}"
            return composite(dict.fromkeys(WEIGHTS, 0.0), WEIGHTS, pass_at=1.0, feedback=feedback)
        return score_of(self.task.secret.scene, look_at(grid))
