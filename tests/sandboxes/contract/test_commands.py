"""Commands that are run to their end, behind every kind of walls."""

import os

import anyio
import pytest

from rollouthub.sandbox import CommandLimits, CommandNotStarted, Sandbox


async def test_a_command_runs_and_is_told_of(sandbox: Sandbox) -> None:
    done = await sandbox.exec("echo out; echo err >&2; exit 3")
    assert (done.stdout.text, done.stderr.text, done.exit_status) == ("out\n", "err\n", 3)
    assert not done.timed_out
    assert done.seconds > 0


async def test_arguments_reach_the_program_as_they_are(sandbox: Sandbox) -> None:
    odd = ["", "two words", "$HOME", "'", '"', "line\nbreak", "grüße", "*"]
    done = await sandbox.exec(["printf", "%s|", *odd])
    assert done.stdout.text == "|".join(odd) + "|"


async def test_output_is_bytes_of_any_kind(sandbox: Sandbox) -> None:
    done = await sandbox.exec(r"printf '\377\000\376ok'")
    assert done.stdout.head == b"\xff\x00\xfeok"
    assert done.stdout.text == "\ufffd\x00\ufffdok"


async def test_a_signal_is_told_from_an_exit(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("kill -9 $$")).exit_status == -9
    assert (await sandbox.exec("exit 137")).exit_status == 137


async def test_standard_input_is_given_and_ends(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["cat"], stdin=b"\x00\xffsome")).stdout.head == b"\x00\xffsome"
    assert (await sandbox.exec(["cat"])).stdout.head == b""


async def test_large_standard_input_goes_through(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 80_000
    done = await sandbox.exec("wc -c; echo done", stdin=data)
    assert done.stdout.text.split() == [str(len(data)), "done"]


async def test_input_that_nobody_reads_holds_nobody_up(sandbox: Sandbox) -> None:
    done = await sandbox.exec("exec <&-; echo closed", stdin=bytes(5_000_000))
    assert done.stdout.text == "closed\n"


async def test_input_echoed_back_does_not_jam(sandbox: Sandbox) -> None:
    data = b"0123456789abcde\n" * 200_000
    done = await sandbox.exec(["cat"], stdin=data, output_bytes=len(data))
    assert done.stdout.head == data
    assert done.stdout.dropped_bytes == 0


async def test_commands_start_in_the_working_directory(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("pwd -P")).stdout.text.strip() == sandbox.workdir
    assert (await sandbox.exec("mkdir -p below/it && echo made > below/it/file")).exit_status == 0
    assert (await sandbox.exec("cat file", cwd="below/it")).stdout.text == "made\n"
    assert (await sandbox.exec("pwd", cwd="/")).stdout.text == "/\n"


async def test_the_working_directory_is_writable_and_scratch_too(sandbox: Sandbox) -> None:
    done = await sandbox.exec("touch here && touch ${TMPDIR:-/tmp}/there && echo both")
    assert done.stdout.text == "both\n", done.stderr.text


async def test_the_environment_is_added_to(sandbox: Sandbox) -> None:
    done = await sandbox.exec('echo "$ODD" "$PATH"', environment={"ODD": "a b=c 'd' ü"})
    odd, _, path = done.stdout.text.strip().partition("ü ")
    assert odd == "a b=c 'd' "
    assert "/usr/bin" in path


async def test_nothing_of_the_hubs_environment_is_inside(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-1")
    said = (await sandbox.exec("env; cat /proc/self/environ /proc/$PPID/environ 2>/dev/null")).stdout.text
    assert "SECRET_KEY" not in said
    assert "PYTEST" not in said


async def test_a_command_runs_as_who_the_record_says(sandbox: Sandbox) -> None:
    said = (await sandbox.exec("id -u")).stdout.text.strip()
    assert said in sandbox.ref.user or (sandbox.ref.user == "its own" and said != str(os.geteuid()))
    assert said != "0"


async def test_only_the_three_standard_files_are_open(sandbox: Sandbox) -> None:
    said = (await sandbox.exec(["ls", "/proc/self/fd"])).stdout.text.split()
    assert said == ["0", "1", "2", "3"]  # the last one reads the folder


async def test_python_runs_inside(sandbox: Sandbox) -> None:
    done = await sandbox.exec(["python3", "-c", "import json, ssl, sqlite3; print(json.dumps([6 * 7]))"])
    assert done.stdout.text == "[42]\n", done.stderr.text


@pytest.mark.parametrize(
    ("command", "reason"),
    [(["no-such-program"], "ENOENT"), (["/"], "EACCES"), ([], "EINVAL"), (["echo", "a\0b"], "EINVAL")],
)
async def test_what_cannot_be_started_is_told_from_what_failed(
    sandbox: Sandbox, command: list[str], reason: str
) -> None:
    with pytest.raises(CommandNotStarted) as caught:
        await sandbox.exec(command)
    assert caught.value.reason == reason
    assert (await sandbox.exec(["true"])).exit_status == 0


async def test_no_such_folder_or_user_is_told(sandbox: Sandbox) -> None:
    with pytest.raises(CommandNotStarted) as caught:
        await sandbox.exec("true", cwd="/no/such/folder")
    assert caught.value.reason == "ENOENT"
    with pytest.raises(CommandNotStarted):
        await sandbox.exec("true", user="nobody-of-this-name")
    with pytest.raises(CommandNotStarted):
        await sandbox.exec("true", user="0:0")


async def test_a_command_too_long_is_refused_with_a_way_out(sandbox: Sandbox) -> None:
    with pytest.raises(CommandNotStarted, match="standard input") as caught:
        await sandbox.exec("#" * 300_000)
    assert caught.value.reason == "E2BIG"


async def test_a_flood_is_kept_at_both_ends_and_counted(sandbox: Sandbox) -> None:
    flood = "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last; echo small >&2"
    done = await sandbox.exec(flood, output_bytes=1000)
    assert len(done.stdout.head) == len(done.stdout.tail) == 500
    assert done.stdout.head.startswith(b"first\nxxx")
    assert done.stdout.tail.endswith(b"xxx\nlast\n")
    assert done.stdout.dropped_bytes == 6 + 20_000_000 + 1 + 5 - 1000
    assert f"{done.stdout.dropped_bytes:,} bytes dropped" in done.stdout.text
    assert done.stderr.text == "small\n"


async def test_output_just_within_the_cap_is_whole(sandbox: Sandbox) -> None:
    done = await sandbox.exec("head -c 1000 /dev/zero", output_bytes=1000)
    assert (done.stdout.head, done.stdout.tail, done.stdout.dropped_bytes) == (bytes(1000), b"", 0)
    assert (await sandbox.exec("echo unseen", output_bytes=0)).stdout.dropped_bytes == 7


async def test_a_command_that_was_stopped_at_its_deadline_keeps_what_it_said(sandbox: Sandbox) -> None:
    done = await sandbox.exec("echo so far; echo and here >&2; sleep 1000", timeout_seconds=2)
    assert done.timed_out
    assert done.exit_status is None
    assert (done.stdout.text, done.stderr.text) == ("so far\n", "and here\n")


async def test_processor_time_is_limited(sandbox: Sandbox) -> None:
    done = await sandbox.exec("while :; do :; done", limits=CommandLimits(cpu_seconds=1), timeout_seconds=30)
    assert done.used_up_its_cpu
    assert not done.timed_out
    assert 0.5 < done.cpu_seconds < 5


async def test_memory_of_one_process_is_limited(sandbox: Sandbox) -> None:
    hungry = ["python3", "-c", "x = bytearray(300 << 20)"]
    done = await sandbox.exec(hungry, limits=CommandLimits(memory_bytes=128 << 20))
    assert "MemoryError" in done.stderr.text


async def test_the_size_of_a_file_is_limited(sandbox: Sandbox) -> None:
    done = await sandbox.exec("head -c 5000000 /dev/zero > large", limits=CommandLimits(file_bytes=1_000_000))
    assert done.exit_status != 0
    assert (await sandbox.list_files("large"))[0].bytes <= 1_000_000


async def test_many_commands_run_at_once(sandbox: Sandbox) -> None:
    said: dict[int, str] = {}

    async def run(number: int) -> None:
        done = await sandbox.exec(f"cat; echo {number}; echo {number} >&2", stdin=b"in ")
        said[number] = done.stdout.text + done.stderr.text

    async with anyio.create_task_group() as group:
        for number in range(64):
            group.start_soon(run, number)
    assert said == {number: f"in {number}\n{number}\n" for number in range(64)}


@pytest.mark.soak
async def test_a_thousand_commands_leave_nothing_behind(sandbox: Sandbox) -> None:
    count = "set -- /proc/[0-9]*; echo $#"
    before = int((await sandbox.exec(count)).stdout.text)
    for _ in range(1000):
        assert (await sandbox.exec(["true"])).exit_status == 0
    if sandbox.ref.walls != "limits":  # there the machine's own processes are counted too
        assert int((await sandbox.exec(count)).stdout.text) == before
