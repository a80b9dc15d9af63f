"""A model's server that refuses everything alike ends a run early, in its own words; any other start does not."""

from pathlib import Path

from aiohttp import web

from rollouthub.engine.run_request import build_request
from rollouthub.engine.run_summary import RunSummary
from tests.engine.resuming import play, summed_up
from tests.models.servers import Handler, Script, body, say

NO_PARSER = {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}


async def run(server: Script, directory: Path, *, resume: bool = False) -> RunSummary:
    """What 120 sums came to at a server."""
    async with server.serve() as url:
        values = {"environments": ["arithmetic"], "model": "hosted_vllm/served", "base_url": [url], "limit": 120}
        await play(build_request({**values, "concurrency": 4}, "test"), directory, resume=resume)
    return summed_up(directory)


async def test_a_server_without_a_tool_parser_ends_the_run_with_a_hint(tmp_path: Path) -> None:
    server = Script(body({"error": NO_PARSER}, 400))
    summary = await run(server, tmp_path / "run")
    assert 50 <= len(server.asked) <= 54
    assert (summary.status, summary.scored, summary.rollouts) == ("interrupted", 0, 120)
    assert summary.stopped is not None
    for words in ("first 50 rollouts", NO_PARSER["message"], "-a single_turn", "--tool-call-parser NAME", "--resume"):
        assert words in summary.stopped


async def test_such_a_run_is_taken_up_again(tmp_path: Path) -> None:
    await run(Script(body({"error": NO_PARSER}, 400)), tmp_path / "run")
    summary = await run(Script(say("4")), tmp_path / "run", resume=True)
    assert (summary.status, summary.scored, summary.stopped) == ("finished", 120, None)


async def test_words_that_differ_in_numbers_alone_are_the_same(tmp_path: Path) -> None:
    count = 0

    async def refuse(request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        return web.json_response({"error": {"message": f"request {count} is not wanted"}}, status=422)

    summary = await run(Script(refuse), tmp_path / "run")
    assert summary.stopped is not None
    assert count <= 54


def mixed() -> list[Handler]:
    """One good answer among refusals."""
    refused = body({"error": NO_PARSER}, 400)
    return [*[refused] * 20, say("4"), refused]


async def test_a_run_in_which_anything_is_answered_goes_on(tmp_path: Path) -> None:
    summary = await run(Script(*mixed()), tmp_path / "run")
    assert summary.stopped is None
    assert summary.missing == 0
