"""The page of one environment: what it is, how to install it, its tools, an example, and why to trust it."""

import json
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from rollouthub.statistics.amounts import count
from rollouthub.text import printable
from rollouthub.views.cards.blocks import CodeBlock, PlainBlock, ProseBlock
from rollouthub.views.cards.card import Card, SpeechCard
from rollouthub.views.cards.card_html import cards_html
from rollouthub.views.cards.prose_html import prose_html
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub_registry.bundle.attestation import ShownTool
from rollouthub_registry.server.package_details import ExampleStep, PackageDetails
from rollouthub_registry.server.version_listing import Facts, Listing, moment

SCHEMA_CHARACTERS = 6_000
MOST_VERSIONS = 50
_WHO = {"system": "system", "user": "task", "assistant": "agent", "tool": "tool result", "call": "tool call"}
KINDS = {
    "python": "Python class",
    "command": "MCP server, a command",
    "image": "MCP server, an image",
    "url": "MCP server, elsewhere",
}


def package_page(shown: Listing, versions: Sequence[Listing], url: str, details: PackageDetails) -> list[Markup | None]:
    """All sections of the page; `url` is the address of the registry."""
    facts, release = shown.facts, shown.release
    return [
        tag("h1", str(release.package)),
        tag("div", tag("span", f"version {release.version}"), checks_mark(shown), audit_mark(shown), signals(shown),
            class_="row"),
        tag("p", facts.description or "No description."),
        tag("div", [tag_link(word) for word in facts.tags], class_="row"),
        _section("Install", _install(shown, versions, url)),
        _section("README", tag("div", prose_html(details.readme), class_="cards")) if details.readme else None,
        _section("Tools", _tools(details.tools, facts)),
        _section("An example", _example(details.example)),
        _section("Baselines", _baselines(facts)),
        _section("What the checks and the audit found", _found(shown, details)),
        _section("About", _about(shown)),
        _section("Versions", _versions(versions)),
    ]  # fmt: skip


def _section(title: str, *content: Markup | None) -> Markup:
    return join(tag("h2", title), *content)


def checks_mark(listing: Listing) -> Markup:
    """The badge of the checks before publication."""
    if listing.facts.checks_passed:
        return tag("span", "checks passed", class_="mark good")
    return tag("span", "checks failed", class_="mark bad")


def audit_mark(listing: Listing) -> Markup | None:
    """The badge of the latest audit."""
    audit = listing.facts.audit
    if audit is None:
        return None
    if audit["sound"]:
        return tag("span", f"audited {audit['at'][:10]}", class_="mark good")
    return tag("span", f"audit {audit['at'][:10]}: {', '.join(audit['broken'][:6])}", class_="mark bad")


def signals(listing: Listing) -> list[Markup]:
    """What helps to choose, in a few words each."""
    facts = listing.facts
    said = [count(listing.downloads, "download"), *([facts.licence] if facts.licence else [])]
    if facts.difficulty is not None:
        said.append(f"difficulty {facts.difficulty:.2f}")
    return [tag("span", text) for text in said]


def tag_link(word: str) -> Markup:
    """A tag that leads to all environments with it."""
    return tag("a", word, href=f"./?{urlencode({'tag': word})}", class_="tag")


def _install(shown: Listing, versions: Sequence[Listing], url: str) -> Markup:
    """How to install the version; if it is yanked, why not to."""
    if shown.yanked is None:
        return tag("pre", tag("code", f"hub install {shown.release} --registry {url}"))
    said = f"This version is yanked: {shown.yanked or 'no reason was given.'}"
    where = next((each.release for each in versions if each.is_latest and each.yanked is None), None)
    name = str(where.version) if where is not None else ""
    instead = join(" Take ", tag("a", name, href=f"packages/{where.package}/{name}"), ".") if where else None
    return tag("p", said, tag("br"), "It is installed only where a lock names it.", instead, class_="notice")


def _tools(tools: Sequence[ShownTool], facts: Facts) -> Markup:
    digest = (
        tag("p", "Digest of the list: ", tag("code", facts.tools_digest), class_="soft") if facts.tools_digest else None
    )
    if not tools:
        return join(tag("p", "Its publisher showed none; an agent sees them when it plays.", class_="soft"), digest)
    return join([_tool(tool) for tool in tools], digest)


def _tool(tool: ShownTool) -> Markup:
    schema = tool.input_schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = ", ".join(properties) if isinstance(properties, dict) else ""
    words = printable(json.dumps(schema, indent=2, ensure_ascii=False), SCHEMA_CHARACTERS)
    head = tag("summary", tag("code", f"{tool.name}({printable(names, 200)})"))
    inner = (
        tag("pre", tag("code", words)) if schema is not None else tag("p", "Its schema was too large.", class_="soft")
    )
    return tag("details", head, tag("p", tool.description, class_="said") if tool.description else None, inner)


def _example(example: Sequence[ExampleStep]) -> Markup:
    if not example:
        words = "Its bundle shows none: a line of `hub export --to sft` as example.jsonl beside env.toml does."
        return tag("p", words, class_="soft")
    first = next((place for place, said in enumerate(example) if said.role in ("assistant", "call")), len(example))
    parts = [tag("div", cards_html(map(_card, example[:first])), class_="cards")]
    if rest := example[first:]:
        head = tag("summary", f"What an agent did: {count(len(rest), 'step')}")
        parts.append(tag("details", head, tag("div", cards_html(map(_card, rest)), class_="cards")))
    return join(parts)


def _card(said: ExampleStep) -> Card:
    who, role = _WHO[said.role], said.role
    if role == "call":
        return SpeechCard("assistant", who, (CodeBlock(said.text, "json", said.name),))
    block = PlainBlock(said.text) if role == "tool" else ProseBlock(said.text)
    return SpeechCard("tool" if role == "tool" else "assistant" if role == "assistant" else "user", who, (block,))


def _baselines(facts: Facts) -> Markup:
    if not facts.baselines:
        return tag("p", "None were published with it.", class_="soft")
    rows = [
        [
            model,
            _number(mean),
            "" if low is None or high is None else f"{_number(low)} to {_number(high)}",
            f"{samples:,}",
        ]
        for model, mean, samples, low, high in facts.baselines
    ]
    return table(("Model", "Mean reward", "95 % interval", "Samples"), rows)


def _number(reward: float) -> str:
    return f"{reward:.3f}" if abs(reward) < 1e6 else f"{reward:.3g}"


def _found(shown: Listing, details: PackageDetails) -> Markup:
    audit = shown.facts.audit
    parts = [tag("p", _audit_words(shown) or "No audit yet.", class_=None if audit else "soft")]
    if audit is not None and audit["tried"]:
        broken = set(audit["broken"])
        marks = [
            tag(
                "span",
                f"{name}: {'found' if name in broken else 'held'}",
                class_=f"mark {'bad' if name in broken else 'good'}",
            )
            for name in sorted(audit["tried"], key=lambda name: (name not in broken, name))
        ]
        parts.append(tag("div", marks, class_="row"))
    if details.checks:
        failed = sum(state == "failed" for _, state in details.checks)
        head = tag("summary", f"{count(len(details.checks), 'check')} before it was published, {failed} failed")
        parts.append(tag("details", head, table(("Check", "State"), details.checks, words=2)))
    return join(parts)


def _audit_words(listing: Listing) -> str | None:
    audit = listing.facts.audit
    if audit is None:
        return None
    by = "who keeps the registry" if audit.get("is_of_registry") else "its publisher"
    found = "nothing found" if audit["sound"] else f"found {', '.join(audit['broken'])}"
    defective = f", {audit['defective']} of them defective" if audit["defective"] else ""
    of = f"{len(audit['tried'])} classes tried on {audit['tasks']} tasks{defective}"
    return f"Audit: {found} in {of}, {audit['at'][:10]}, by {by}"


def _about(shown: Listing) -> Markup:
    facts = shown.facts
    rows: list[tuple[str, str | None]] = [
        ("Checks", "passed before it was published" if facts.checks_passed else "failed; published all the same"),
        ("Made as", KINDS.get(facts.kind, facts.kind)),
        ("Needs", ", ".join(facts.needs) or "nothing but the hub"),
        ("Licence", facts.licence or "not given"),
        ("Authors", ", ".join(facts.authors)),
        ("Homepage", _link(facts.homepage)),
        ("Source", _link(facts.repository)),
        ("Splits", ", ".join(facts.splits)),
        ("Size", _size(facts.size)),
        ("Published", moment(shown.published_at)[:19].replace("T", " ") + " UTC"),
        ("Digest", tag("code", facts.digest)),
        ("Signed by", tag("code", facts.key_id)),
        ("Public key", tag("code", facts.public_key)),
        ("Contract", f"{facts.contract}, published by hub {facts.hub_version}"),
    ]
    return tag("dl", [join(tag("dt", name), tag("dd", value)) for name, value in rows if value])


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def _link(url: str) -> Markup | None:
    """A link to an http or https URL; None for any other URL."""
    try:
        is_web = urlsplit(url).scheme in ("http", "https")
    except ValueError:
        is_web = False
    return tag("a", url, href=url, rel="nofollow noopener noreferrer") if is_web else None


def _versions(versions: Sequence[Listing]) -> Markup:
    ordered = sorted(versions, key=lambda listing: listing.release.version, reverse=True)
    rows: list[list[str]] = []
    for each, before in zip(ordered[:MOST_VERSIONS], [*ordered[1:], None], strict=False):
        place = f"packages/{each.release.package}/{each.release.version}"
        yanked = tag("span", "yanked", class_="mark bad") if each.yanked is not None else None
        best = each.facts.baselines[0] if each.facts.baselines else None
        rows.append(
            [
                tag("a", str(each.release.version), href=place),
                moment(each.published_at)[:10],
                join(checks_mark(each), " ", audit_mark(each), " ", yanked),
                "first version"
                if before is None
                else "; ".join(_changes(before.facts, each.facts)) or "nothing but its files",
                "–" if best is None else f"{_number(best[1])} ({best[0]})",
                _size(each.facts.size),
            ]
        )
    more = len(ordered) - MOST_VERSIONS
    left = tag("p", f"{count(more, 'older version')} are not listed.", class_="soft") if more > 0 else None
    return join(table(("Version", "Published", "State", "What changed", "Best baseline", "Size"), rows, words=4), left)


def _changes(before: Facts, after: Facts) -> list[str]:
    """What differs between two versions, as their statements tell it."""
    found = ["tools"] if before.tools_digest != after.tools_digest else []
    found += ["contract"] if before.contract != after.contract else []
    found += ["signed by another key"] if before.key_id != after.key_id else []
    for name, old, new in (
        ("licence", before.licence, after.licence),
        ("made as", before.kind, after.kind),
        ("needs", ", ".join(before.needs), ", ".join(after.needs)),
        ("splits", ", ".join(before.splits), ", ".join(after.splits)),
    ):
        if old != new:
            found.append(f"{name}: {old or 'none'} → {new or 'none'}")
    return found
