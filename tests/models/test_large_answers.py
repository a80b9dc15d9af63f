"""A model's answer of four mebibytes holds up nobody: not when it is read, nor when it is recorded and stored."""

import json
from pathlib import Path

import pytest

from envhub.engine.plan import make_plan
from envhub.engine.request import RunRequest
from envhub.engine.run import collect
from envhub.engine.stop import StopSignal
from envhub.models.credentials import Credentials
from envhub.observe.overhead_cell import Count
from tests.mcp_servers.test_loop_holds import SECONDS, SIZE, TRIES, watched

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
async def test_an_answer_of_four_mebibytes_holds_up_nobody(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[float] = []
    async with raw_server(answer_of(mark * (SIZE // (len(json.dumps(mark)) - 2)))) as url:
        for number in range(TRIES):
            request = RunRequest(
                environments=("arithmetic",), agent="single_turn", model="hosted_vllm/m", base_url=(url,), limit=1
            )
            with watched(monkeypatch) as longest:
                count = Watch(longest)
                await collect(
                    make_plan(request),
                    tmp_path / str(number),
                    given="",
                    resume=False,
                    credentials=Credentials({}),
                    observer=count,
                    stop=StopSignal(),
                )
            assert (count.committed_count, count.scored) == (1, 1)
            held.append(longest[0])
            if held[-1] < SECONDS:
                break
    assert 0.0 < min(held) < SECONDS, held
