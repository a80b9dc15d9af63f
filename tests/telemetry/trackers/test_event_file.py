"""Event files are TensorBoard's: what is written can be read by its own messages, and what others write by us."""

import struct
from pathlib import Path

from tensorboardX import SummaryWriter  # pyright: ignore
from tensorboardX.proto import event_pb2  # pyright: ignore
from tensorboardX.record_writer import masked_crc32c  # pyright: ignore

from rollouthub.telemetry.trackers.event_file import EventFile, masked_sum, read_scalars, scalars


def test_records_are_framed_and_summed_as_tensorboard_does(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.add(scalars({"reward/gsm8k": 0.5, "run/coverage": 0.25}, 300, 1700000000.5))
    file.close()
    raw, place, events = file.path.read_bytes(), 0, []
    while place < len(raw):
        (length, head) = struct.unpack("<QI", raw[place : place + 12])
        body = raw[place + 12 : place + 12 + length]
        (tail,) = struct.unpack("<I", raw[place + 12 + length : place + 16 + length])
        assert (head, tail) == (masked_crc32c(raw[place : place + 8]), masked_crc32c(body))
        events.append(event_pb2.Event.FromString(body))  # pyright: ignore
        place += 16 + length
    first, point = events  # pyright: ignore
    assert first.file_version == "brain.Event:2"  # pyright: ignore
    assert (point.step, point.wall_time) == (300, 1700000000.5)  # pyright: ignore
    found = {value.tag: value.simple_value for value in point.summary.value}  # pyright: ignore
    assert found == {"reward/gsm8k": 0.5, "run/coverage": 0.25}


def test_sums_are_crc_32c() -> None:
    assert masked_sum(b"123456789") == masked_crc32c(b"123456789")


def test_what_another_writer_wrote_is_read(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path))  # pyright: ignore
    for step in range(3):
        writer.add_scalar("train/loss", 1.0 / (step + 1), step)  # pyright: ignore
    writer.add_text("notes", "no number")  # pyright: ignore
    writer.close()  # pyright: ignore
    (file,) = tmp_path.iterdir()
    assert [(step, tag, round(value, 3)) for step, _, tag, value in read_scalars(file)] == [
        (0, "train/loss", 1.0),
        (1, "train/loss", 0.5),
        (2, "train/loss", 0.333),
    ]


def test_a_file_that_is_still_written_ends_before_its_last_record(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.add(scalars({"a": 1.0}, 1, 1.0))
    file.add(scalars({"a": 2.0}, 2, 2.0))
    file.close()
    file.path.write_bytes(file.path.read_bytes()[:-7])
    assert [value for *_, value in read_scalars(file.path)] == [1.0]


def test_what_is_no_number_is_left_out_and_what_is_no_event_file_is_empty(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.add(scalars({"a": float("nan"), "b": 1e300}, 1, 1.0))
    file.close()
    assert [(tag, value) for _, _, tag, value in read_scalars(file.path)] == [("b", float("inf"))]
    (tmp_path / "other").write_bytes(b"not an event file at all, but long enough to look like one")
    assert list(read_scalars(tmp_path / "other")) == []
