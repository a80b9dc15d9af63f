"""Who a sweep takes for dead: decided by labels alone."""

import os
import subprocess
import sys

import pytest

from rollouthub_sandboxes.engine.labels import Owner, is_leftover, labels, owner_of, start_of, this_process

HERE = Owner(100, "5000", "boot-a", "pid:[1]")
NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("owner", "living", "is_left"),
    [
        pytest.param(Owner(7, "11", "boot-a", "pid:[1]"), {7: "11"}, False, id="its owner lives"),
        pytest.param(Owner(7, "11", "boot-a", "pid:[1]"), {}, True, id="its owner is gone"),
        pytest.param(Owner(7, "11", "boot-a", "pid:[1]"), {7: "12"}, True, id="another process has its pid"),
        pytest.param(Owner(7, "11", "boot-b", "pid:[1]"), {}, False, id="its owner is of another machine or boot"),
        pytest.param(Owner(7, "11", "boot-a", "pid:[2]"), {}, False, id="its owner is of another pid namespace"),
    ],
)
def test_an_owner_is_judged_where_it_can_be_seen_and_else_by_the_deadline(
    owner: Owner, living: dict[int, str], is_left: bool
) -> None:
    marks = labels(owner, "run", NOW + 60)
    assert is_leftover(marks, HERE, NOW, living.get) is is_left
    assert is_leftover(marks, HERE, NOW + 61, living.get), "its deadline is over"


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"rollouthub.pid": "7", "rollouthub.deadline": "1"},
        {"rollouthub": "1"},
        {"rollouthub": "1", "rollouthub.image": "{}"},
        {"rollouthub": "1", "rollouthub.pid": "7", "rollouthub.deadline": "soon"},
        {"rollouthub": "1", "rollouthub.pid": "-1", "rollouthub.deadline": "1"},
    ],
)
def test_what_has_no_full_labels_of_ours_is_nobodys_leftover(marks: dict[str, str]) -> None:
    assert not is_leftover(marks, HERE, NOW, lambda _: None)


def test_a_process_is_known_by_its_pid_and_its_start() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert me.started == start_of(me.pid)
    assert not is_leftover(labels(me, "run", 2e10), me)


def test_a_zombie_owns_nothing_any_more() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = owner_of(child.pid)
    assert not is_leftover(labels(owner, "run", 2e10), this_process())
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_leftover(labels(owner, "run", 2e10), this_process())
    child.communicate()
    assert is_leftover(labels(owner, "run", 2e10), this_process())
