"""Train with five seeds, and draw their curves: docs/images/learning.svg.

python examples/learning/curves.py --directory runs/learning    # seeds that have a curve are not trained again
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from rollouthub.processes import PYTHON
from rollouthub.views.markup import Markup, tag

SEEDS = range(10, 15)
"""Seeds not used for choosing the settings of train.py, which was done with seeds below ten."""
SCRIPT = Path(__file__).parent / "train.py"
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "learning.svg"
WINDOW = 5
"""Number of steps averaged for each point of the curve."""
MEASURED = 10
"""Number of steps averaged for each figure of the table."""
ENOUGH = 0.9
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed")
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 16, 40


@dataclass(frozen=True, slots=True)
class Trained:
    """The curve of one seed, and how long its process took, including its start."""

    seed: int
    points: Sequence[Mapping[str, float]]
    seconds: float

    @property
    def means(self) -> list[float]:
        """Mean rewards of successive blocks of `MEASURED` steps."""
        rewards = [point["reward"] for point in self.points]
        return [sum(rewards[end - MEASURED : end]) / MEASURED for end in range(MEASURED, len(rewards) + 1)]

    @property
    def row(self) -> str:
        """The seed's line of the table."""
        above = [place + MEASURED for place, mean in enumerate(self.means) if mean > ENOUGH]
        past = above[0] if above else "never"
        per_step = self.points[-1]["seconds"] / len(self.points)
        ends = f"{self.means[0]:.2f} | {self.means[-1]:.2f}"
        return f"| {self.seed} | {ends} | {past} | {per_step:.2f} | {self.seconds:.0f} |"


def picture(found: Mapping[int, Sequence[Mapping[str, float]]]) -> Markup:
    """The picture with the curves, each a moving mean."""
    most = max(len(points) for points in found.values())
    drawn = [tag("rect", width=WIDTH, height=HEIGHT, fill="#fff"), *axes(most)]
    for place, ((seed, points), colour) in enumerate(zip(found.items(), COLOURS, strict=True)):
        line = " ".join(f"{across(step, most):.1f},{up(reward):.1f}" for step, reward in smoothed(points))
        drawn.append(tag("polyline", points=line, fill="none", stroke=colour, stroke_width="1.8"))
        y = HEIGHT - BOTTOM - 80 + 15 * place
        drawn.append(tag("path", d=f"M{WIDTH - 90} {y - 4}h16", stroke=colour, stroke_width="3"))
        drawn.append(tag("text", f"seed {seed}", x=WIDTH - 68, y=y))
    words = f"Mean reward by step, five seeds (mean of the latest {WINDOW} steps)"
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag(
        "svg",
        tag("title", words),
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=box,
        role="img",
        font_family="sans-serif",
        font_size="12",
        fill="#444",
    )


def across(step: float, most: int) -> float:
    """Horizontal position of a step."""
    return LEFT + step / most * (WIDTH - LEFT - RIGHT)


def up(reward: float) -> float:
    """Vertical position of a mean reward."""
    return HEIGHT - BOTTOM - reward * (HEIGHT - TOP - BOTTOM)


def axes(most: int) -> list[Markup]:
    """The axes with their numbers and labels."""
    drawn: list[Markup] = []
    for tenths in range(0, 11, 2):
        y = up(tenths / 10)
        drawn.append(tag("path", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", stroke="#ddd"))
        drawn.append(tag("text", f"{tenths / 10:.1f}", x=LEFT - 8, y=y + 4, text_anchor="end"))
    foot = [(across(step, most), HEIGHT - BOTTOM + 18, str(step)) for step in range(0, most + 1, 10)]
    foot.append((across(most / 2, most), HEIGHT - 5, f"training step (a point is the mean of the latest {WINDOW})"))
    drawn += [tag("text", words, x=x, y=y, text_anchor="middle") for x, y, words in foot]
    turned = f"rotate(-90 12 {up(0.5):.1f})"
    drawn.append(tag("text", "mean reward", x=12, y=up(0.5), text_anchor="middle", transform=turned))
    return drawn


def smoothed(points: Sequence[Mapping[str, float]]) -> list[tuple[float, float]]:
    """For each step, the mean of the latest `WINDOW` steps."""
    rewards = [point["reward"] for point in points]
    latest = [rewards[max(0, place - WINDOW + 1) : place + 1] for place in range(len(rewards))]
    return [(point["step"], sum(some) / len(some)) for point, some in zip(points, latest, strict=True)]


async def trained(seed: int, folder: Path) -> Trained:
    """Train a seed in its own process, or read the result of an earlier call.

    Raises:
        subprocess.CalledProcessError: the training failed.
    """
    told = folder / f"seed-{seed}.json"
    if not told.exists():
        curve, run = folder / f"curve-{seed}.json", folder / f"run-{seed}"
        start = time.monotonic()
        command = [*PYTHON, str(SCRIPT), "--seed", str(seed), "--directory", str(run), "--curve", str(curve)]
        await anyio.run_process(command, stderr=None)
        seconds = time.monotonic() - start
        told.write_text(json.dumps({"seed": seed, "seconds": seconds, "points": json.loads(curve.read_text())}))
    return Trained(**json.loads(told.read_text()))


async def train_all(folder: Path, together: int) -> list[Trained]:
    """Train all seeds, several at a time; returns the results in the seeds' order."""
    found: dict[int, Trained] = {}
    room = anyio.CapacityLimiter(together)

    async def one(seed: int) -> None:
        async with room:
            found[seed] = await trained(seed, folder)
        sys.stdout.write(f"{found[seed].row}\n")
        sys.stdout.flush()

    sys.stdout.write("| seed | first ten | last ten | past 0.9 at | seconds a step | seconds in all |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- |\n")
    async with anyio.create_task_group() as group:
        for seed in SEEDS:
            group.start_soon(one, seed)
    return [found[seed] for seed in SEEDS]


def main() -> None:
    """Train missing seeds, draw the picture, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("runs/learning"))
    parser.add_argument("--together", type=int, default=1, help="how many seeds are trained at a time")
    given = parser.parse_args()
    folder: Path = given.directory
    folder.mkdir(parents=True, exist_ok=True)
    found = anyio.run(train_all, folder, given.together)
    PICTURE.write_text(f"{picture({each.seed: each.points for each in found})}\n")


if __name__ == "__main__":
    main()
