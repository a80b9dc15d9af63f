"""Bar charts with an axis: values are read, compared and counted."""

from random import Random

from rollouthub_servers.visual.canvas import COLOURS, Canvas
from rollouthub_servers.visual.picture_question import PictureQuestion

_LABELS = "ABCDEFGHJK"
_LEFT, _TOP, _UNIT, _STEP, _HIGHEST = 44, 20, 10, 5, 20


def chart(random: Random, level: int) -> PictureQuestion:
    """A question on a bar chart; higher levels have more bars, and from the third on values between the lines."""
    count = 2 + level + random.randrange(2)
    values = _values(random, count, level)
    labels = _LABELS[:count]
    canvas = _drawn(random, labels, values)
    place, other = random.sample(range(count), 2)
    kind = random.choice(("value", "highest", "above") if level < 3 else ("value", "difference", "above"))
    if kind == "highest":
        best = labels[values.index(max(values))]
        return PictureQuestion("Which bar is the highest? Give its letter.", canvas, best, "word", tuple(labels))
    if kind == "above":
        line = random.randrange(1, _HIGHEST // _STEP) * _STEP
        asked, answer = f"How many bars are higher than {line}?", sum(value > line for value in values)
    elif kind == "difference":
        asked = f"How much do the values of the bars {labels[place]} and {labels[other]} differ?"
        answer = abs(values[place] - values[other])
    else:
        asked, answer = f"What is the value of bar {labels[place]}?", values[place]
    return PictureQuestion(asked, canvas, str(answer), "number")


def _values(random: Random, count: int, level: int) -> list[int]:
    step = _STEP if level < 3 else 1
    values = [random.randrange(1, _HIGHEST // step + 1) * step for _ in range(count)]
    if values.count(max(values)) > 1:  # one is the highest
        values = [min(value, _HIGHEST - step) for value in values]
        values[random.randrange(count)] = _HIGHEST
    return values


def _drawn(random: Random, labels: str, values: list[int]) -> Canvas:
    wide = 36
    canvas = Canvas(_LEFT + wide * len(values) + 16, _TOP + _HIGHEST * _UNIT + 40)
    ground = _TOP + _HIGHEST * _UNIT
    for line in range(0, _HIGHEST + 1, _STEP):
        y = ground - line * _UNIT
        canvas.rectangle(_LEFT, y, canvas.width - 8, y + 1, "grey")
        canvas.text(_LEFT - 20, y, str(line), scale=2)
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        left = _LEFT + 8 + place * wide
        canvas.rectangle(left, ground - value * _UNIT, left + wide - 12, ground, random.choice(COLOURS))
        canvas.text(left + (wide - 12) / 2, ground + 20, label)
    canvas.rectangle(_LEFT, _TOP, _LEFT + 2, ground, "black")
    canvas.rectangle(_LEFT, ground, canvas.width - 8, ground + 2, "black")
    return canvas
