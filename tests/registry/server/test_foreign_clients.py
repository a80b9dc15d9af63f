"""Clients of MCP registries that this project did not write read ours, as they are; `.ci/foreign.sh` installs them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from tests.registry.server.kinds import ABOUTS, FOREIGN, offers
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import Served, bearer, served

pytestmark = pytest.mark.live

SDK = """
import asyncio, json, sys
from mcpreg import NotFoundError, RegistryClient, RegistrySettings, high_water_mark

def names(entries):
    return [f"{entry.server.name}@{entry.server.version}" for entry in entries]

async def main(url):
    told = {}
    async with RegistryClient(RegistrySettings(base_url=url)) as client:
        everything = [entry async for entry in client.iter_servers(limit=7)]
        told["all"] = names(everything)
        told["one_page"] = names((await client.list_servers(limit=100)).servers)
        told["found"] = names([entry async for entry in client.iter_servers(search="IMAGE", limit=3)])
        told["latest"] = names([entry async for entry in client.iter_servers(search="words", version="latest")])
        told["versions"] = names((await client.list_versions("lab/words")).servers)
        told["with_yanked"] = names((await client.list_versions("lab/words", include_deleted=True)).servers)
        latest = await client.get_version("lab/words")
        told["latest_version"] = [latest.server.version, latest.meta.official.is_latest]
        yanked = await client.get_version("lab/words", "1.2.0-rc.1", include_deleted=True)
        told["yanked"] = [yanked.meta.official.status, yanked.meta.official.status_message]
        told["package"] = latest.server.packages[0].identifier
        packages = [package for entry in everything for package in entry.server.packages or ()]
        told["kinds"] = sorted({package.registry_type for package in packages})
        told["remotes"] = len([entry for entry in everything if entry.server.remotes])
        mark = high_water_mark(everything)
        changed = [entry async for entry in client.iter_servers(updated_since=mark)]
        told["changed"] = names(changed)
        try:
            await client.get_version("lab/nothing")
        except NotFoundError as error:
            told["unknown"] = str(error)
    print(json.dumps(told))

asyncio.run(main(sys.argv[1]))
"""


def sdk() -> Path:
    """The Python of the SDK's environment."""
    python = FOREIGN / "registry-sdk" / "bin" / "python"
    done = python.exists() and subprocess.run([python, "-c", "import mcpreg"], capture_output=True, check=False)
    if not done or done.returncode:
        pytest.skip("mcp-registry-sdk is not installed, or its Python is older than 3.13; run .ci/foreign.sh")
    return python


async def run(*command: str | Path) -> Any:
    """What a program prints, as JSON."""
    done = await to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def fill(hub: Served, publisher: Publisher) -> list[str]:
    """Everything of all kinds, and an environment whose newest version is yanked; what is then there to find."""
    token = hub.token()
    there = [*offers(publisher), *(publisher.offer("lab/words", version) for version in ("1.0.0", "1.1.0"))]
    for each in (*there, publisher.offer("lab/words", "1.2.0-rc.1")):
        assert (await hub.publish(each, token)).status == 201
    yank = "/envhub/v1/packages/lab/words/1.2.0-rc.1/yank"
    assert (await hub.ask("POST", yank, json={"reason": "wrong"}, headers=bearer(token))).status == 200
    return sorted(str(each.release) for each in there)


async def test_the_sdk_for_registries_reads_all_of_it(tmp_path: Path) -> None:
    python = sdk()
    async with served(tmp_path / "hub") as hub:
        there = await fill(hub, Publisher(tmp_path))
        told = await run(python, "-c", SDK, hub.url)
        assert sorted(told["all"]) == sorted(told["one_page"]) == there
        assert told["found"] == [name for name in told["all"] if "image" in name]
        assert told["latest"] == ["lab/words@1.1.0"]
        assert told["versions"] == ["lab/words@1.1.0", "lab/words@1.0.0"]
        assert told["with_yanked"] == ["lab/words@1.2.0-rc.1", *told["versions"]]
        assert told["latest_version"] == ["1.1.0", True]
        assert told["yanked"] == ["deleted", "wrong"]
        assert told["package"] == f"{hub.url}/envhub/v1/packages/lab/words/1.1.0/bundle"
        assert told["kinds"] == ["rollouthub", "oci"]
        assert told["remotes"] == 2 * len(ABOUTS)
        assert "lab/words@1.2.0-rc.1" in told["changed"]
        assert "lab/nothing" in told["unknown"]


async def test_a_program_that_looks_servers_up_finds_ours(tmp_path: Path) -> None:
    program = FOREIGN / "registry-clients" / "bin" / "mcp-lookup"
    if not program.exists():
        pytest.skip("mcp-lookup is not installed; run .ci/foreign.sh")
    async with served(tmp_path / "hub") as hub:
        await fill(hub, Publisher(tmp_path))
        ours = (program, "--base-url", hub.url, "--source", "registry")
        found = await run(*ours, "search", "words", "--json")
        assert {entry["server"]["name"] for entry in found} == {"lab/words"}
        got = await run(*ours, "get", "lab/words")
        assert (got["server"]["version"], got["server"]["title"]) == ("1.1.0", "words")
