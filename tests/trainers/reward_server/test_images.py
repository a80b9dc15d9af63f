"""Pictures over HTTP: scored by anybody's function, read within bounds, from one folder alone."""

import math
import os
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from rollouthub.errors import ConfigError, CredentialError, VerifierError
from rollouthub.task import Public
from rollouthub.trainers.dance_grpo import image_advantages, image_rewards, judge_images, write_captions
from rollouthub.trainers.reward_server.image_scorer import find_scorer
from rollouthub.trainers.reward_server.plain_look import plain_look
from rollouthub.trainers.reward_server.reward_client import RewardClient
from tests.trainers.reward_server.served import PLAIN, TOKEN, bomb, encoded, png, reward_server, rewards

SCORERS = """
import asyncio
import itertools
import threading
from pathlib import Path
class Unspeakable(Exception):
    def __str__(self):
        raise ValueError
def sizes(images, prompts, metadata):
    return {"width": [image.width for image in images], "twice": [2 * len(prompt) for prompt in prompts]}
def halves(images, prompts, metadata):
    return [each["value"] for each in metadata]
def short(images, prompts, metadata):
    return [1.0]
def broken(images, prompts, metadata):
    raise RuntimeError("out of memory")
def stuck(images, prompts, metadata):
    Path(metadata[0]["began"]).touch()
    threading.Event().wait(metadata[0]["seconds"])
    return [1.0]
async def awaited(images, prompts, metadata):
    return [7.0 for _ in images]
def leaving(images, prompts, metadata):
    raise SystemExit("no model")
def letters(images, prompts, metadata):
    return "1" * len(images)
def interrupting(images, prompts, metadata):
    raise KeyboardInterrupt("no more")
def cancelled(images, prompts, metadata):
    raise asyncio.CancelledError
async def cancelled_itself(images, prompts, metadata):
    raise asyncio.CancelledError
def unspeakable(images, prompts, metadata):
    raise Unspeakable
def undecodable(images, prompts, metadata):
    raise OSError("file \\udcff.bin")
def endless(images, prompts, metadata):
    return itertools.repeat(1.0)
def late(images, prompts, metadata):
    assert threading.current_thread() is not threading.main_thread()
    for image in images:
        assert threading.current_thread() is not threading.main_thread(), "all others would wait"
        yield 1.0
def texts(images, prompts, metadata):
    return ["1", b"1"]
"""


def scorer(folder: Path, name: str) -> str:
    (folder / "scorers.py").write_text(SCORERS)
    return f"{folder / 'scorers.py'}:{name}"


def body(*images: Any, prompts: Sequence[str] | None = None, **more: Any) -> dict[str, Any]:
    given = list(images)
    return {"images": given, "prompts": ["red"] * len(given) if prompts is None else prompts, **more}


async def test_a_scorers_numbers_come_back_for_each_picture_by_name(tmp_path: Path) -> None:
    pictures = [encoded(png(size=(3, 5))), encoded(png(size=(4, 4)))]
    async with rewards(scorer=scorer(tmp_path, "sizes")) as server:
        status, reply = await server.post("/v1/images", body(*pictures, prompts=["a", "bc"]))
    assert status == 200
    assert reply == {
        "rewards": [5.0, 8.0],
        "components": {"width": [3.0, 4.0], "twice": [2.0, 4.0]},
        "problems": [None, None],
    }


async def test_a_picture_without_a_number_is_null_and_says_why(tmp_path: Path) -> None:
    values = [0.5, None, 0.25]
    pictures = [encoded(png()), encoded(png()), encoded(b"no picture"), encoded(png())]
    metadata = [{"value": value} for value in (*values[:2], 1.0, values[2])]
    async with rewards(scorer=scorer(tmp_path, "halves")) as server:
        _, reply = await server.post("/v1/images", body(*pictures, metadata=metadata))
    assert reply["rewards"] == [0.5, None, None, 0.25]
    assert [bool(problem) for problem in reply["problems"]] == [False, True, True, False]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("short", "1 numbers"),
        ("broken", "out of memory"),
        ("leaving", "no model"),
        ("letters", "not a list"),
        ("interrupting", "no more"),
        ("cancelled", "CancelledError"),
        ("cancelled_itself", "broken off"),
        ("unspeakable", "Unspeakable"),
        ("undecodable", "file ?.bin"),
        ("endless", "more than 2 numbers"),
    ],
)
async def test_a_scorer_that_fails_fails_the_request_and_not_the_server(tmp_path: Path, name: str, words: str) -> None:
    async with rewards(scorer=scorer(tmp_path, name)) as server:
        for _ in range(2):
            status, reply = await server.post("/v1/images", body(encoded(png()), encoded(png())))
            assert status == 503
            assert words in reply["error"]["message"]


async def test_a_scorer_that_hangs_holds_up_its_own_request_until_the_bound(tmp_path: Path) -> None:
    began = tmp_path / "began"
    slow = body(encoded(png()), metadata=[{"began": str(began), "seconds": 3}])
    async with rewards(scorer=scorer(tmp_path, "stuck"), seconds=0.5) as server:
        status, reply = await server.post("/v1/images", slow)
        assert (status, began.exists()) == (504, True)
        assert "0.5 seconds" in reply["error"]["message"]
        began.unlink()
        # No second call begins beside the first: a scorer with a model of its own has one GPU.
        assert (await server.post("/v1/images", slow))[0] == 504
        assert not began.exists()


async def test_numbers_may_come_one_by_one_and_those_in_letters_are_none(tmp_path: Path) -> None:
    async with rewards(scorer=scorer(tmp_path, "late")) as server:
        assert (await server.post("/v1/images", body(encoded(png()))))[1]["rewards"] == [1.0]
    async with rewards(scorer=scorer(tmp_path, "texts")) as server:
        assert (await server.post("/v1/images", body(encoded(png()), encoded(png()))))[1]["rewards"] == [None, None]


async def test_a_coroutine_scores_too(tmp_path: Path) -> None:
    async with rewards(scorer=scorer(tmp_path, "awaited")) as server:
        assert (await server.post("/v1/images", body(encoded(png()))))[1]["rewards"] == [7.0]


async def test_only_pictures_of_the_servers_folder_are_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "images", tmp_path / "images-secret"
    for place in (folder / "below", outside):
        place.mkdir(parents=True)
    for file in (folder / "a.png", folder / "below" / "b.png", outside / "s.png"):
        file.write_bytes(png())
    (folder / "link.png").symlink_to(outside / "s.png")
    (folder / "folder").symlink_to(outside)
    os.mkfifo(folder / "pipe.png")
    (folder / "secret.txt").write_text("words")
    good = ["a.png", "below/b.png", "below/../a.png", str(folder / "a.png")]
    bad = [
        "../images-secret/s.png",
        str(outside / "s.png"),
        "link.png",
        "folder/s.png",
        "pipe.png",
        "below",
        "secret.txt",
        "none.png",
        "/etc/passwd",
        "a.png\0",
        "x" * 5000,
        "",
    ]
    async with rewards(scorer=scorer(tmp_path, "sizes"), images=folder) as server:
        status, reply = await server.post("/v1/images", body(*({"path": path} for path in (*good, *bad))))
        assert status == 200, reply
        assert [reward is not None for reward in reply["rewards"]] == [True] * len(good) + [False] * len(bad)
        # What is there and what is not sounds the same, from outside the folder.
        assert reply["problems"][4].replace("../images-secret/s.png", "") == reply["problems"][11].replace(
            "none.png", ""
        )
    async with rewards(scorer=PLAIN) as server:
        _, reply = await server.post(
            "/v1/images", body({"path": str(folder / "a.png")}, {}, {**encoded(png()), "path": "a"})
        )
        assert reply["rewards"] == [None] * 3


async def test_bombs_are_measured_before_they_are_unpacked() -> None:
    huge, large = encoded(bomb(60_000, 60_000)), encoded(bomb(5000, 5000))
    async with rewards(scorer=PLAIN) as server:
        status, reply = await server.post("/v1/images", body(huge, encoded(png()), {"base64": "!"}))
        assert (status, reply["rewards"]) == (200, [None, 1.0, None])
        assert (await server.post("/v1/images", body(*[encoded(png())] * 257)))[0] == 400
        assert (await server.post("/v1/images", body(large, prompts=[])))[0] == 400


async def test_a_jpeg_that_is_gone_over_again_and_again_is_refused_and_other_formats_are_no_pictures() -> None:
    from PIL import Image

    def saved(kind: str, **options: bool) -> bytes:
        buffer = BytesIO()
        Image.new("RGB", (16, 16), (200, 30, 30)).save(buffer, kind, **options)
        return buffer.getvalue()

    progressive = saved("JPEG", progressive=True)
    last = progressive[progressive.rindex(b"\xff\xda") : -2]
    scanned = [progressive[:-2] + last * count + b"\xff\xd9" for count in (10, 1000)]
    others = [saved(kind) for kind in ("GIF", "BMP", "TIFF", "ICO", "PPM")]
    drawn = (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8" fill="red"/></svg>'
    )
    given = [saved("WEBP"), progressive, *scanned, *others, drawn]
    async with rewards(scorer=PLAIN) as server:
        _, reply = await server.post("/v1/images", body(*map(encoded, given)))
    assert reply["rewards"] == [1.0, 1.0, 1.0] + [None] * 7
    assert "scans" in reply["problems"][3]


def test_the_plain_look_reads_colour_light_and_shape_and_leaves_the_rest_unscored() -> None:
    from PIL import Image

    red, wide = Image.new("RGB", (10, 10), (200, 30, 30)), Image.new("RGB", (178, 100), (240, 240, 240))
    prompts = ["a red ball", "blue", "a wide, bright hall", "a ball"]
    found = plain_look([red, red, wide, red], prompts, [dict[str, Any]()] * 4)
    assert found["colour"] == [1.0, 0.0, None, None]
    assert found["reward"][:2] == [1.0, 0.0]
    assert found["reward"][3] is None
    assert found["shape"][2] == pytest.approx(1.0)
    assert found["light"][2] == pytest.approx(1 - (240 / 255 - 0.8))


async def test_the_call_in_danceGRPOs_script_gets_a_reward_for_each_picture(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "p.png").write_bytes(png((40, 70, 200)))
    images = [Image.new("RGB", (8, 8), (200, 30, 30)), png((40, 70, 200)), tmp_path / "p.png"]
    async with reward_server(scorer=PLAIN, images=tmp_path) as url:
        client = RewardClient(url, TOKEN)

        def ask() -> None:
            assert image_rewards(images, ["red"] * 3, url=url, token=TOKEN) == [1.0, 0.0, 0.0]
            assert image_rewards(["p.png"], ["blue"], on_server=True, client=client) == [1.0]
            with pytest.raises(VerifierError, match="1 of 2 pictures are unscored"):
                image_rewards(images[:2], ["red", "a ball"], client=client)
            masked = image_rewards(images[:2], ["red", "a ball"], client=client, unscored="nan")
            assert masked[0] == 1.0
            assert math.isnan(masked[1])
            judged = judge_images(images * 86, ["red", "blue", "red"] * 86, client=client)
            assert judged.rewards == [1.0, 1.0, 0.0] * 86  # in two requests
            assert judged.components["colour"] == judged.rewards
            with pytest.raises(CredentialError):
                image_rewards(images, ["red"] * 3, url=url, token="another")
            with pytest.raises(ConfigError, match="do not match"):
                judge_images(images, ["red"], client=client)

        await anyio.to_thread.run_sync(ask)


def test_a_client_without_a_server_or_with_a_token_for_the_open_network_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ROLLOUTHUB_REWARD_URL", raising=False)
    with pytest.raises(ConfigError, match="ROLLOUTHUB_REWARD_URL"):
        image_rewards([b"x"], ["red"])
    with pytest.raises(CredentialError, match="in the clear"):
        image_rewards([b"x"], ["red"], url="http://rewards.example", token=TOKEN)
    with pytest.raises(VerifierError, match="1 tries"):
        image_rewards([b"x"], ["red"], client=RewardClient("http://127.0.0.1:9", TOKEN, tries=1))


def test_an_unscored_picture_has_no_advantage_and_no_part_in_its_group() -> None:
    found = image_advantages([1.0, 0.0, math.nan, 0.5, 0.5, 0.5], 3)
    assert found[:2] == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)])
    assert found[2:] == [0.0] * 4
    with pytest.raises(ConfigError, match="no groups of 4"):
        image_advantages([1.0] * 6, 4)


def test_captions_are_a_line_each_and_what_the_script_would_drop_is_counted(tmp_path: Path) -> None:
    prompts = ["A red\nball ", "红色的球", " ", "A cube"]
    written = write_captions(
        (Public(id=str(place), prompt=text) for place, text in enumerate(prompts)), tmp_path / "c.txt"
    )
    assert (tmp_path / "c.txt").read_text().splitlines() == ["A red ball", "A cube"]
    assert (written.written, written.left_out) == (2, {"chinese": 1, "empty": 1})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain", "'plain' names no scorer"),
        ("no_such_module:score", "'no_such_module:score' could not be imported"),
        ("rollouthub.trainers.reward_server.plain_look:none", "no function 'none'"),
        ("gone.py:score", "^there is no file 'gone.py'"),
    ],
)
def test_a_scorer_that_is_not_there_is_refused_by_name(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        find_scorer(name)


def test_an_answer_that_is_no_json_is_no_reward() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>welcome</html>")

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            client = RewardClient(f"http://127.0.0.1:{server.server_port}", TOKEN, tries=1)
            with pytest.raises(VerifierError, match="no JSON: '<html>welcome"):
                client.post("/v1/rewards", {"answers": []})
        finally:
            server.shutdown()
            serving.join()
