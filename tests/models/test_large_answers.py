"""A model's answer of four mebibytes holds up nobody: not when it is read, nor when it is recorded and stored."""

import json
from pathlib import Path
from tempfile import mkdtemp

import pytest

from rollouthub.engine.plan import make_plan
from rollouthub.engine.request import RunRequest
from rollouthub.engine.run import collect
from rollouthub.engine.stop import StopSignal
from rollouthub.models.credentials import Credentials
from rollouthub.observe.overhead_cell import Count
from tests.loop_holds import SECONDS, SIZE, shortest_hold

from .servers import raw_server


class Watch(Count):
    """Forgets what opening the run took."""

    def __init__(self, longest: list[float]) -> None:
        super().__init__()
        self._longest = longest

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """From here on it counts."""
        self._longest[0] = 0.0


def answer_of(text: str) -> bytes:
    """What a server sends that says this."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": len(text) // 4, "total_tokens": 1 + len(text) // 4}
    body = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize("mark", ["7 ", "\n", "é"])
async def test_an_answer_of_four_mebibytes_holds_up_nobody(mark: str, tmp_path: Path) -> None:
    async with raw_server(answer_of(mark * (SIZE // (len(json.dumps(mark)) - 2)))) as url:

        async def play(longest: list[float]) -> None:
            count = Watch(longest)
            await collect(
                make_plan(
                    RunRequest(
                        environments=("arithmetic",),
                        agent="single_turn",
                        model="hosted_vllm/m",
                        base_url=(url,),
                        limit=1,
                    )
                ),
                Path(mkdtemp(dir=tmp_path)),
                given="",
                resume=False,
                credentials=Credentials({}),
                observer=count,
                stop=StopSignal(),
            )
            assert (count.committed_count, count.scored) == (1, 1)

        held = await shortest_hold(play)
        assert 0.0 < held < SECONDS
