"""A task that shows pictures: every lane sends their bytes, the verifier sees them, the record keeps each once."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from rollouthub import ModelReply, ModelRequest, Rollout, ToolRequest, aevaluate, picture
from rollouthub.messages import assistant, digest_of, media_of
from rollouthub.models.mock.mock_server import ModelServer, listening
from rollouthub.rollout import Usage
from rollouthub.store import open_run
from rollouthub_servers.visual import Visual, VisualConfig
from tests.engine.picture_world import TASK, TOOL, USER, png

WORLD = str(Path(__file__).with_name("picture_world.py"))
# litellm serialises garbage through pydantic, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


class Looker:
    """Looks once more by the tool, then says a word whenever it is asked; keeps what it was shown."""

    name = "openai/looker"

    def __init__(self) -> None:
        self.shown: list[list[bytes]] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The next thing to do."""
        self.shown.append([request.media[part.digest] for part in media_of(request.messages)])
        is_first = all(message.role != "assistant" for message in request.messages)
        look = ToolRequest(id="look-1", name="look", arguments="{}")
        message = assistant("", look) if is_first and request.tools else assistant("dark")
        return ModelReply(message=message, finish_reason="stop", usage=Usage(prompt_tokens=3, output_tokens=2))


@asynccontextmanager
async def looker() -> AsyncGenerator[tuple[Looker, str]]:
    """The model behind a server, and its address."""
    model = Looker()
    server = ModelServer(model, ("served",), is_mock=False)
    async with listening(server, "127.0.0.1", 0) as port:
        yield model, f"http://127.0.0.1:{port}/v1"


async def played(directory: Path, url: str, world: str = WORLD, **settings: Any) -> tuple[list[Rollout], set[str]]:
    """The rollouts of a run, and the names of what it keeps in `media/`."""
    run = await aevaluate(world, "hosted_vllm/served", base_url=[url], directory=directory, progress=False, **settings)
    run.close()
    with open_run(directory) as reader:
        rollouts = list(reader.rollouts())
    return rollouts, {"sha256:" + file.name for file in (directory / "media").iterdir()}


@pytest.mark.parametrize("lane", ["direct", "litellm"])
@pytest.mark.parametrize("is_served", [False, True])
async def test_every_lane_sends_the_exact_bytes_and_the_record_keeps_them(
    tmp_path: Path, lane: Literal["direct", "litellm"], is_served: bool
) -> None:
    async with looker() as (model, url):
        ((rollout,), kept) = await played(tmp_path / "run", url, lane=lane, served=is_served)
    assert model.shown == [[TASK], [TASK, TOOL], [TASK, TOOL, USER]]
    assert rollout.score is not None
    assert rollout.score.reward == 1.0, rollout.faults
    assert kept == {digest_of(TASK), digest_of(TOOL), digest_of(USER)}
    with open_run(tmp_path / "run") as reader:
        assert reader.media(digest_of(USER)) == USER


async def test_a_generated_picture_reaches_the_model_as_it_was_drawn(tmp_path: Path) -> None:
    prompts = [task.public.prompt for task in Visual.tasks(VisualConfig(size=8), "test", 0)]
    drawn = [part.read() for prompt in prompts if not isinstance(prompt, str) for part in media_of(prompt)]
    async with looker() as (model, url):
        run = await aevaluate(
            "visual", "hosted_vllm/served", base_url=[url], directory=tmp_path / "run", progress=False, limit=8
        )
        run.close()
    assert sorted(shown for (shown,) in model.shown) == sorted(each for each in drawn if each is not None)
    assert run.summary.scored == 8
    assert len(list((tmp_path / "run" / "media").iterdir())) == len(set(drawn))


async def test_a_run_is_scored_again_with_its_pictures(tmp_path: Path) -> None:
    async with looker() as (_, url):
        await played(tmp_path / "run", url)
    command = [sys.executable, "-c", "from rollouthub.cli.entry import main; main()", "score", str(tmp_path / "run")]
    done = await anyio.run_process([*command, "--env", WORLD, "-o", str(tmp_path / "again"), "-q"], check=False)
    assert done.returncode == 0, done.stderr.decode()
    with open_run(tmp_path / "again") as reader:
        assert [rollout.score and rollout.score.reward for rollout in reader.rollouts()] == [1.0]
        assert reader.media(digest_of(TASK)) == TASK


@pytest.mark.parametrize("is_served", [False, True])
async def test_what_a_judge_was_shown_is_kept(tmp_path: Path, is_served: bool) -> None:
    async with looker() as (model, url):
        role = {"judge": {"name": "hosted_vllm/served", "base_url": url}}
        ((rollout,), kept) = await played(tmp_path / "run", url, served=is_served, roles=role, set={"asks_judge": True})
    assert model.shown[-1] == [png(9)]
    assert digest_of(png(9)) in kept
    assert rollout.score is not None
    assert rollout.score.judge_calls[0].model == "hosted_vllm/served"


async def test_a_picture_of_a_file_is_read_for_each_episode_and_refused_once_it_was_changed(tmp_path: Path) -> None:
    file = tmp_path / "shade.png"
    file.write_bytes(TASK)
    part = picture(file)
    assert (part.read(), part.is_file) == (TASK, True)
    async with looker() as (model, url):
        await played(tmp_path / "run", url, set={"file": str(file)})
    assert model.shown[0] == [TASK]
    file.write_bytes(USER)
    with pytest.raises(Exception, match="was changed since its task was read"):
        part.read()
