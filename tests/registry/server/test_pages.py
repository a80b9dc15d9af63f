"""The registry's pages: readable without JavaScript, and nothing a publisher writes becomes markup."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rollouthub.views.markup import tag
from rollouthub_registry.bundle.attestation import ShownTool
from tests.registry.server.publishers import Offer, Publisher
from tests.registry.server.serving import Served, bearer, served

HOSTILE = (
    """<script>alert(1)</script><img src=x onerror=alert(1)>" onmouseover="alert(1) ' {{7*7}} &lt;b&gt; \u202eevil"""
)

CALLS = [{"function": {"name": HOSTILE, "arguments": HOSTILE}}, {"function": 3}, 4]


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def published(hub: Served, offer: Offer) -> bool:
    return (await hub.publish(offer, hub.token())).status == 201


async def test_people_find_an_environment_and_how_to_install_it(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        token = hub.token()
        for version in ("1.0.0", "1.1.0"):
            offer = publisher.offer("lab/words", version, baselines=[("openai/big", 0.75, 8)], tags=["puzzle"])
            await hub.publish(offer, token)
        listed = await hub.get("/?q=words&sort=hardest&passed=1")
        assert (listed.status, 'href="packages/lab/words"' in listed.body.decode()) == (200, True)
        page = (await hub.get("/packages/lab/words")).body.decode()
        for shown in ("hub install lab/words@1.1.0 --registry", "MIT", "0.750", publisher.key_id, offer.bundle.digest):
            assert shown in page
        yank = "/envhub/v1/packages/lab/words/1.0.0/yank"
        await hub.ask("POST", yank, json={"reason": "wrong <answers>"}, headers=bearer(token))
        assert "wrong &lt;answers&gt;" in (await hub.get("/packages/lab/words/1.0.0")).body.decode()
        assert (await hub.get("/?q=nothing-of-the-kind")).status == 200


async def test_what_a_publisher_writes_is_text_and_never_markup(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        said: dict[str, Any] = {
            "description": HOSTILE,
            "baselines": [(HOSTILE, 0.5, 2)],
            "passed": False,
            "tools": [ShownTool(name=HOSTILE, description=HOSTILE, input_schema={"properties": {HOSTILE: HOSTILE}})],
            "files": {
                "README.md": f"# {HOSTILE}\n[x](javascript:alert(1)) ![p](//evil.test/p.png)\n{HOSTILE}",
                "example.jsonl": json.dumps({"messages": [{"role": HOSTILE, "content": HOSTILE, "tool_calls": CALLS}]}),
            },
        }
        offer = publisher.offer("lab/words", **said)
        assert (await hub.publish(offer, hub.token())).status == 201
        for path in ("/", "/packages/lab/words", "/packages/lab/words/1.0.0", "/?q=%22%3E%3Cscript%3E&tag=%3Cb%3E"):
            answer = await hub.get(path)
            elements = Elements(answer.body.decode()).found
            assert not {name for name, _ in elements} & {"script", "img", "b", "style", "iframe", "object"}
            assert not any(key.startswith("on") or key == "style" for _, attributes in elements for key in attributes)
            links = [attributes["href"] or "" for _, attributes in elements if "href" in attributes]
            assert [
                link for link in links if not re.match(r"\./|packages/|style\.css|favicon\.svg$|/$|https?://", link)
            ] == []
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy


async def test_a_page_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with served(tmp_path / "hub") as hub:
        for path in ("/packages/lab/nothing", "/packages/%3Cscript%3E/x"):
            answer = await hub.get(path)
            assert (answer.status, b"<script" in answer.body) == (404, False)
        assert (await hub.get("/?sort=magic")).status == 400


async def test_pages_lead_on_and_back(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        token = hub.token()
        for number in range(3):
            await hub.publish(publisher.offer(f"lab/env-{number}"), token)
        assert b">Next<" in (first := (await hub.get("/?limit=2&sort=name")).body)
        assert b">Previous<" not in first
        last = (await hub.get("/?limit=2&sort=name&offset=2")).body
        assert b">Previous<" in last and b">Next<" not in last
        assert b"packages/lab/env-2" in last


async def test_pages_lead_within_a_registry_that_lies_below_another_place(tmp_path: Path) -> None:
    async with served(tmp_path / "hub", public_url="https://example.org/registry/") as hub:
        page = (await hub.get("/")).body.decode()
        assert '<base href="/registry/">' in page
        assert await published(hub, Publisher(tmp_path).offer("lab/words"))
        assert "--registry https://example.org/registry<" in (await hub.get("/packages/lab/words")).body.decode()


async def test_a_yanked_version_is_not_recommended(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        for version in ("1.0.0", "1.1.0"):
            await published(hub, publisher.offer("lab/words", version))
        yank = "/envhub/v1/packages/lab/words/1.1.0/yank"
        await hub.ask("POST", yank, json={"reason": "wrong"}, headers=bearer(hub.token()))
        page = (await hub.get("/packages/lab/words/1.1.0")).body.decode()
        assert "This version is yanked: wrong" in page and 'href="packages/lab/words/1.0.0"' in page
        assert "hub install" not in page
        assert "hub install lab/words@1.0.0" in (await hub.get("/packages/lab/words")).body.decode()


def test_text_turns_and_hides_nothing() -> None:
    assert tag("p", "a\u202eb\x1b[31mc\u200bd\ne\u2066 עברית 🧮") == ("<p>abcd\ne עברית 🧮</p>")


def test_markup_is_escaped_everywhere() -> None:
    assert tag("a", "<&>", href='"><b>') == '<a href="&quot;&gt;&lt;b&gt;">&lt;&amp;&gt;</a>'
