"""What an agent reads of a page and may do in it, and which scripts run there, without a browser."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import ImportSource, find_importer
from rollouthub.processes import HUB
from rollouthub_servers.foreign.serving import Refused
from rollouthub_servers.miniwob.element_list import listed
from rollouthub_servers.miniwob.page_actions import MOST_TYPED, Mouse, pressed, typed
from rollouthub_servers.miniwob.page_server import policy_of

BOX = [80, 100, 40, 20]


def row(depth: int, ref: int, tag: str, words: str = "", value: Any = None, **more: Any) -> list[Any]:
    """One row of what a page tells of itself."""
    return [
        *(depth, ref, tag, words, value, more.get("name", ""), more.get("classes", ""), BOX),
        *(more.get("background", ""), more.get("focused", False)),
    ]


def test_elements_are_listed_below_what_holds_them_and_mere_frames_are_left_out() -> None:
    rows = [
        row(0, 1, "body", background="rgb(85, 85, 85)"),
        row(1, 2, "div", name="wrap", background="rgb(255, 255, 255)"),
        row(2, 3, "div", classes="mail unread"),
        row(3, 4, "span", 'Say "hi"\n now'),
        row(3, -1, "t", "loose words"),
        row(2, 5, "input_checkbox", value=False),
        row(2, 6, "input_text", value="ab", focused=True),
        row(2, 8, "div"),
        row(2, 7, "select", value={"chosen": ["Bo"], "of": ["Al", "Bo"]}, background="rgb(1, 2, 3)"),
    ]
    shown, refs = listed(rows)
    assert refs == {3, 4, 5, 6, 7, 8}
    assert shown.splitlines() == [
        "[3] div.mail.unread at 80,100 size 40x20",
        '  [4] span "Say "hi" now" at 80,100 size 40x20',
        '  text "loose words" at 80,100 size 40x20',
        "[5] input_checkbox not checked at 80,100 size 40x20",
        '[6] input_text value "ab" at 80,100 size 40x20 focused',
        "[8] div at 80,100 size 40x20",
        '[7] select chosen "Bo" of "Al", "Bo" at 80,100 size 40x20 background rgb(1,2,3)',
    ]


@pytest.mark.parametrize("key", ["C-l", "C-t", "A-<F4>", "<F12>", "<Escape>", "C-<Tab>", "ab", "", 7, "\x1b", None])
def test_a_key_that_leads_out_of_the_page_is_refused(key: Any) -> None:
    with pytest.raises(Refused, match="it is one character, or <Backspace>"):
        list(pressed(key))


def test_a_key_is_pressed_as_a_keyboard_does() -> None:
    down, up = pressed("C-a")
    assert down[1]["modifiers"] == 2 and down[1]["code"] == "KeyA" and down[1]["text"] == ""
    assert up[1]["type"] == "keyUp"
    shifted, _ = pressed("!")
    assert (shifted[1]["code"], shifted[1]["modifiers"], shifted[1]["text"]) == ("Digit1", 8, "!")
    assert next(pressed("<Enter>"))[1]["text"] == "\r"


def test_a_text_is_typed_key_by_key_and_only_so_much() -> None:
    assert [given["key"] for _, given in typed("aé\n") if given["type"] == "keyDown"] == ["a", "é", "Enter"]
    assert not list(typed("\x00\x1b")), "what no key writes is left out"
    with pytest.raises(Refused, match="at most 1,000"):
        list(typed("x" * (MOST_TYPED + 1)))


@pytest.mark.parametrize("place", [(-1, 5), (160, 5), (5, 210), (5, float("nan")), ("5", 5), (True, 5), (1e400, 5)])
def test_a_place_beside_the_task_is_refused(place: Any) -> None:
    with pytest.raises(Refused, match="the page goes from 0"):
        Mouse(160, 210).checked(*place)


def test_a_drag_holds_the_button_until_its_end() -> None:
    mouse = Mouse(160, 210)
    kinds = [(given["type"], given.get("buttons", 0)) for _, given in mouse.drag((1, 1), (9, 9))]
    assert kinds[0] == ("mouseMoved", 0) and kinds[1] == ("mousePressed", 1) and kinds[-1] == ("mouseReleased", 0)
    assert set(kinds[2:-1]) == {("mouseMoved", 1)}


def test_only_the_page_s_own_scripts_may_run() -> None:
    page = b"<script src='../core/core.js'></script><script>\r\nvar a = 1;\r\n</script><div onclick='x()'></div>"
    policy = dict(part.split(" ", 1) for part in policy_of(page).split("; "))
    # Of "\nvar a = 1;\n": a parser reads no carriage returns.
    assert policy["script-src"] == "'self' 'sha256-UXNer4npOCf/F4eCtHkKG99a5wMJMyYh4BeQWH3QeYQ='"
    assert policy["form-action"] == policy["frame-src"] == policy["base-uri"] == "'none'"
    assert "allow-popups" not in policy["sandbox"] and "allow-modals" not in policy["sandbox"]


def test_without_chromium_one_sentence_names_the_package(tmp_path: Path) -> None:
    command = [*HUB, "import", "miniwob", "miniwob==1.0", "click-test"]
    variables = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "apt-get install chromium-headless-shell" in " ".join(done.stderr.split())


def test_an_unknown_setting_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(ConfigError, match="'colour'"):
        find_importer("miniwob").look(ImportSource.of("miniwob==1.0"), {"colour": "red"})
