"""A package's page shows what its bundle and statement hold; the home narrows a search, and leads back from nothing."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from rollouthub_registry.bundle.attestation import ShownTool
from rollouthub_registry.server.env_toml import bundle_files
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import Served, served

README = "# Sums\n\nAdds **numbers**.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
EXAMPLE = {
    "messages": [
        {"role": "user", "content": "What is 1 + 1?"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "It is 2."},
    ],
    "tools": json.dumps([{"function": {"name": "from_the_example", "parameters": {"type": "object"}}}]),
}
TOOL = ShownTool(name="add", description="Adds.", input_schema={"properties": {"a": {"type": "number"}}})
SANDBOX = '\n[sandbox]\nnetwork = "bridge"\n'


async def page_of(hub: Served, path: str) -> str:
    answer = await hub.get(path)
    assert answer.status == 200
    return unescape(answer.body.decode())


async def test_a_package_shows_its_readme_tools_example_and_intervals(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        files = {"README.md": README, "example.jsonl": json.dumps(EXAMPLE) + "\n"}
        said: dict[str, Any] = {"files": files, "tools": [TOOL], "baselines": [("lab/big", 0.5, 40, 0.4, 0.6)]}
        assert (await hub.publish(publisher.offer("lab/sums", **said), hub.token())).status == 201
        page = await page_of(hub, "/packages/lab/sums")
        assert "<strong>numbers</strong>" in page
        assert "add(a)" in page
        assert '"type": "number"' in page
        assert "from_the_example" not in page
        assert "What is 1 + 1?" in page
        assert "What an agent did: 3 steps" in page
        assert "0.400 to 0.600" in page
        assert "two-is-secret" not in page
        (found,) = (await hub.get("/envhub/v1/packages/lab/sums")).json["versions"]
        assert found["quality"]["baselines"][0]["high"] == 0.6


async def test_what_a_bundle_does_not_hold_is_said_and_the_first_task_shows_no_answer(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        assert (await hub.publish(Publisher(tmp_path).offer("lab/sums"), hub.token())).status == 201
        page = await page_of(hub, "/packages/lab/sums")
        assert "Its publisher showed none" in page
        assert "1 + 1?" in page
        assert "two-is-secret" not in page
        assert "README" not in page


@pytest.mark.parametrize("example", ["[" * 100_000, '{"messages": 3}', '{"messages": [{"content": {"a": 1}}, 4]}', "{"])
async def test_a_damaged_example_leaves_the_page_whole(tmp_path: Path, example: str) -> None:
    async with served(tmp_path / "hub") as hub:
        offer = Publisher(tmp_path).offer("lab/sums", files={"example.jsonl": example})
        assert (await hub.publish(offer, hub.token())).status == 201
        assert "hub install lab/sums" in await page_of(hub, "/packages/lab/sums")


async def test_versions_are_compared(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        for version, more in (("1.0.0", ""), ("1.1.0", SANDBOX), ("1.2.0", SANDBOX)):
            assert (await hub.publish(publisher.offer("lab/sums", version, more=more), hub.token())).status == 201
        page = await page_of(hub, "/packages/lab/sums")
        assert "needs: none → sandbox, network" in page
        assert page.index("nothing but its files") < page.index("needs: none → sandbox") < page.index("first version")


async def test_a_search_is_narrowed_by_facets_that_count(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        for name, more in (("sums", ""), ("words", SANDBOX), ("walls", SANDBOX)):
            assert (await hub.publish(publisher.offer(f"lab/{name}", more=more), hub.token())).status == 201
        page = await page_of(hub, "/?sort=name")
        assert "<h1>Environments</h1>" in page
        assert 'href="./?sort=name&needs=sandbox">sandbox</a><span class="soft"> 2</span>' in page
        assert 'href="./?sort=name&needs=nothing">nothing</a><span class="soft"> 1</span>' in page
        narrowed = await page_of(hub, "/?needs=sandbox&q=w")
        assert "packages/lab/words" in narrowed
        assert "packages/lab/sums" not in narrowed
        assert 'aria-label="Remove needs: sandbox"' in narrowed
        results = (await hub.get("/envhub/v1/search?needs=nothing&kind=command")).json["results"]
        assert [(each["name"], each["needs"]) for each in results] == [("lab/sums", [])]
        assert (await hub.get("/?audit=perfect")).status == 400


async def test_an_empty_search_leads_back(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        assert "Nothing is published yet" in await page_of(hub, "/")
        assert (await hub.publish(Publisher(tmp_path).offer("lab/sums"), hub.token())).status == 201
        page = await page_of(hub, "/?q=nonesuch&needs=secrets")
        assert "Nothing fits “nonesuch” with these filters" in page
        assert 'href="./">Show all environments' in page
        assert 'href="./?q=nonesuch">' in page
        assert 'href="./">Back to the first' in await page_of(hub, "/?offset=40")


async def test_the_icon_is_there(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        for path in ("/favicon.svg", "/favicon.ico"):
            answer = await hub.get(path)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "image/svg+xml")


def test_single_files_are_read_from_a_bundle_bounded(tmp_path: Path) -> None:
    long = "x" * 200_000
    bundle = Publisher(tmp_path).build("lab/sums", "1.0.0", "", files={"a.md": long, "z.md": "end"})
    found = bundle_files(bundle.path, {"a.md", "z.md", "none.md"}, 70_000)
    assert found == {"a.md": (b"x" * 70_000, 200_000), "z.md": (b"end", 3)}
