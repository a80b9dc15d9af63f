"""What an agent's programs can reach of live control: nothing, behind walls of either kind."""

from typing import Literal

import pytest

from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.process import process_provider

from .conftest import IS_ROOT, Guest, Watch, until

STEER = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(10)
    try:
        client.connect(sys.argv[1])
        client.sendall(b'{"id":1,"method":"interrupt","run":true}\\n')
        print(client.makefile().readline())
    except OSError as error:
        print(type(error).__name__)
"""
SHUT_OUT = ("refused", "FileNotFoundError", "PermissionError", "BrokenPipeError", "ConnectionResetError")


@pytest.fixture(
    params=[
        "namespaces",
        pytest.param("limits", marks=pytest.mark.skipif(not IS_ROOT, reason="only root gives sandboxes users")),
    ]
)
def walls(request: pytest.FixtureRequest) -> Literal["namespaces", "limits"]:
    """Each kind that can be had here."""
    if request.param == "namespaces":
        request.getfixturevalue("namespaces")
    return request.param


async def test_a_sandboxed_program_cannot_steer_the_run_it_is_part_of(
    watch: Watch, walls: Literal["namespaces", "limits"]
) -> None:
    guest, spec = Guest(), SandboxSpec()
    async with watch(guest) as run, process_provider((walls,)) as provider:
        await until(lambda: guest.waiting == 3)
        (path,) = run.sockets
        for place, mode in ((path.parent.parent, 0o755), (path.parent, 0o755), (path, 0o777)):
            place.chmod(mode)  # as if modes held nothing
        async with provider.open(spec) as sandbox:
            done = await sandbox.exec(["python3", "-c", STEER, str(path)])
        assert any(word in done.stdout.text for word in SHUT_OUT), done.stdout.text + done.stderr.text
        assert run.live.state == "running"
        assert guest.waiting == 3
