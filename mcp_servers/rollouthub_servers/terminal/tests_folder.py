"""The folder of a task's tests in a sandbox, and the reward file that they write."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from rollouthub.errors import VerifierError
from rollouthub.sandbox import MIB, File, Finished, Sandbox, SandboxFileError
from rollouthub_servers.terminal.named_paths import some
from rollouthub_servers.terminal.reward import REWARD_JSON, REWARD_TEXT, Rewards, parse_json, parse_text

TESTS, LOGS = "/tests", "/logs/verifier"
REWARD_BYTES = 1 * MIB
_CLEAN = """
set -e
for folder in /logs {tests}; do
    if [ -h "$folder" ] || {{ [ -e "$folder" ] && [ ! -d "$folder" ]; }}; then rm -f "$folder"; fi
done
rm -rf {clean}
mkdir -p {make} /logs/artifacts /logs/agent
chmod 0777 {make} /logs/artifacts /logs/agent
chmod 0755 /logs
"""
_UNRESOLVED = re.compile(
    r"(?:Could not resolve hostname|Could not resolve host:|Could not resolve|Temporary failure resolving"
    r"|Failed to resolve|unable to resolve host address|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|dial tcp: lookup)"
    r" ?['\"\u2018]?([\w.-]+)"
)
_UNREACHABLE = re.compile(r"/dev/tcp/([\w.-]+)/\d+: Network is unreachable")
_NO_NETWORK = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "dns error:",
)


async def find_program(sandbox: Sandbox, program: str) -> str | None:
    finished = await sandbox.exec(["/bin/sh", "-c", f"command -v {program}"], user="0", cwd="/")
    return finished.stdout.text.strip() or None


async def make_room(fresh: Sandbox, tests: Sequence[File], *, is_live: bool = False) -> None:
    """Create empty folders for tests and output, removing what is in their place (links unfollowed)."""
    places = f"{TESTS} {LOGS}" if tests else LOGS
    script = _CLEAN.format(tests=TESTS if tests else "", clean=places, make=places)
    finished = await fresh.exec(["/bin/sh", "-c", script], user="0", cwd="/", keeps_background=is_live)
    for place in places.split():
        parent = str(PurePosixPath(place).parent)
        kinds = {entry.path.rstrip("/").rpartition("/")[2]: entry.kind for entry in await fresh.list_files(parent)}
        logs = {entry.path.rstrip("/").rpartition("/")[2]: entry.kind for entry in await fresh.list_files("/")}
        is_real = kinds.get(PurePosixPath(place).name) == "directory" and logs.get("logs") == "directory"
        if finished.exit_status != 0 or not is_real or await fresh.list_files(place):
            raise VerifierError(
                f"{place} could not be made ready for the tests: {finished.stderr.text or 'it is not an empty folder'}",
                retryable=False,
            )


async def read_rewards(fresh: Sandbox, finished: Finished, tests: Sequence[File]) -> Rewards:
    """Read the reward from the file that the tests mention; the code under test may have written the other one."""
    files = [(REWARD_JSON, parse_json), (REWARD_TEXT, parse_text)]
    files.sort(key=lambda file: not any(file[0].encode() in test.data for test in tests))
    for name, parse in files:
        try:
            data = await fresh.read_file(f"{LOGS}/{name}", max_bytes=REWARD_BYTES, follows_links=False)
        except SandboxFileError as error:
            if error.reason == "ENOENT":
                continue
            raise VerifierError(f"the reward in {LOGS}/{name} cannot be read: {error}", retryable=False) from error
        return parse(data)
    raise VerifierError(
        f"the tests wrote neither {LOGS}/{REWARD_JSON} nor {REWARD_TEXT} (exit status {finished.exit_status}): "
        f"{finished.stdout.text[-500:]}",
        retryable=False,
    )


def refused_hosts(output: str) -> tuple[str, ...]:
    """Hosts that a program's output reports as unreachable without a network; empty if it reports none."""
    found = dict.fromkeys([*_UNRESOLVED.findall(output), *_UNREACHABLE.findall(output)])
    hosts = tuple(host for host in found if host != "localhost" and not host.startswith("127."))
    return hosts or (("another host",) if any(words in output for words in _NO_NETWORK) else ())


def wanting(hosts: Sequence[str]) -> str:
    """What to do about tests that need a network, in words."""
    return (
        f"the tests need the network ({some(hosts)}), which they do not have; give it to them alone with "
        "--set verifier_network=bridge"
    )
