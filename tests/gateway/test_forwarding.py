"""Bytes that go through to an environment in another process: none of its tools runs without a record."""

import anyio
import pytest

from rollouthub import Limits
from rollouthub.hosting.open_host import open_served
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import GatewayHarness, harness

_META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
)
_CALL = b'"method":"tools/call","params":{"name":"calculate","arguments":{"expression":"1 + 1"},%s%s}'
_BODIES = {
    "not a number": b'{"jsonrpc":"2.0","id":1,' + _CALL % (b'"more":NaN,', _META) + b"}",
    "no finite number": b'{"jsonrpc":"2.0","id":1e999,' + _CALL % (b"", _META) + b"}",
    "an id that is true": b'{"jsonrpc":"2.0","id":true,' + _CALL % (b"", _META) + b"}",
    "several at once": b'[{"jsonrpc":"2.0","id":1,' + _CALL % (b"", _META) + b"}]",
    "nothing": b"",
}


async def _status(made: GatewayHarness, address: SeatAddress, body: bytes) -> tuple[int, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "calculate",
    }
    async with made.http.post(address.agent_url, data=body, headers=headers) as response:
        return response.status, await response.text()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop, and one environment's process, for this file."""
    return "asyncio"


async def test_what_the_hub_cannot_read_does_not_reach_the_environment() -> None:
    async with open_served("arithmetic", {}) as host, harness(host=host) as made:
        answers: dict[str, tuple[int, str]] = {}

        async def play(address: SeatAddress) -> None:
            for name, body in _BODIES.items():
                with anyio.fail_after(10):
                    answers[name] = await _status(made, address, body)

        rollout = await made.play(play, limits=Limits(max_turns=1))
    assert {name: status for name, (status, _) in answers.items()} == dict.fromkeys(_BODIES, 400)
    assert not rollout.turns
