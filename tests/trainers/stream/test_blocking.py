"""A supply without an event loop."""

import threading
from pathlib import Path

import pytest

import rollouthub
from rollouthub import UsageError
from rollouthub.trainers.stream import blocking

from .conftest import settings


def test_a_plain_loop_takes_groups_and_publishes_from_its_own_thread(tmp_path: Path) -> None:
    ran_in = list[int]()
    with blocking(rollouthub.stream_rollouts(groups=True, **settings(tmp_path))) as supply:
        batch = supply.batch()
        assert len(batch) == 2
        supply.publish_weights(update=lambda: ran_in.append(threading.get_ident()))
        with supply.updating() as version:
            assert (version, supply.stats.is_paused) == (2, True)
        assert supply.policy_version == 2
        rest = list(supply)
        assert (len(rest), supply.stats.handed_out) == (4, 6)
        assert len(supply.sample(3)) == 3
        supply.pause()
        supply.resume()
        assert supply.batch() == []
    assert ran_in == [threading.get_ident()]


def test_an_error_within_the_block_arrives_as_it_is(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        blocking(rollouthub.stream_rollouts(groups=True, **settings(tmp_path, epochs=None))) as supply,
    ):
        next(supply)
        _ = 1 / 0


def test_what_is_asked_wrongly_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError),
        blocking(rollouthub.stream_rollouts(groups=True, **settings(tmp_path, split="nowhere"))),
    ):
        pass
