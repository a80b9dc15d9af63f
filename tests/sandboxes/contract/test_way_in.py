"""How a person gets into a sandbox: a shell where the agent's programs run, as who they run as."""

import anyio
import anyio.to_thread
import pytest

from rollouthub.hosting.local.shell_access import ways_into
from rollouthub.sandbox import Container, EnterableSandbox, Sandbox, SandboxProvider
from tests.sandboxes.contract.conftest import SPEC
from tests.sandboxes.terminal import type_into


async def test_the_way_in_leads_to_a_shell_in_this_sandbox_and_no_other(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "sk-nobody-may-read-this")
    await sandbox.write_file(f"{sandbox.workdir}/mine", sandbox.id.encode())
    own = (await sandbox.exec("hostname; id -u")).stdout.text
    (way,) = ways_into(sandbox).ways
    typed = "cat mine; echo; hostname; id -u; env | grep -c PROVIDER_KEY; exit\n"
    shown = await anyio.to_thread.run_sync(type_into, way.command, typed)
    said = shown.splitlines()
    assert any(line.endswith(sandbox.id) for line in said), shown
    for line in (*own.splitlines(), "0"):
        assert line in said, shown
    assert (await sandbox.exec("true")).exit_status == 0


async def test_a_shell_that_is_left_open_ends_with_its_sandbox(provider: SandboxProvider) -> None:
    shown: list[str] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks, provider.open(SPEC) as sandbox:
            (way,) = ways_into(sandbox).ways

            async def sit() -> None:
                typed = "touch here; while :; do sleep 1; done\n"
                shown.append(await anyio.to_thread.run_sync(type_into, way.command, typed))

            tasks.start_soon(sit)
            waits = "while ! test -e here; do sleep 0.01; done"
            assert (await sandbox.exec(waits, timeout_seconds=10)).exit_status == 0
            assert shown == []
    assert len(shown) == 1


async def test_a_container_is_named_and_nothing_more_is_told_of_it(sandbox: Sandbox) -> None:
    assert isinstance(sandbox, EnterableSandbox)
    inside = sandbox.way_in()
    if sandbox.ref.walls == "container":
        assert isinstance(inside, Container)
        assert (inside.name, inside.shell[-2:]) == (sandbox.id, (sandbox.id, "sh"))
    else:
        assert isinstance(inside, tuple)
        assert inside[:2] == ("env", "-i")
