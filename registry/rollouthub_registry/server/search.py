"""Searches environments by words and quality: by full-text rank, and at equal rank the better checked first."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rollouthub_registry.server.index import COLUMNS, FROM, Index, listing_of
from rollouthub_registry.server.version_listing import Listing

Order = Literal["relevance", "downloads", "updated", "name", "hardest", "easiest"]
ORDERS: tuple[Order, ...] = get_args(Order)
_BY: dict[Order, str] = {
    # bm25 is the lower the better, and below zero.
    "relevance": "fit * (1 + v.quality + 0.5 * downloads / (downloads + 50.0)), v.name",
    "downloads": "downloads DESC, v.name",
    "updated": "v.updated_at DESC, v.name",
    "name": "v.name",
    "hardest": "v.difficulty IS NULL, v.difficulty DESC, v.name",
    "easiest": "v.difficulty IS NULL, v.difficulty, v.name",
}
_WITHOUT_WORDS = "(1 + v.quality + 0.5 * downloads / (downloads + 50.0)) DESC, v.name"
_MOST_WORDS = 12
_MOST_VALUES = 8
FACETS: dict[str, tuple[str, ...]] = {
    "kind": ("python", "command", "image", "url"),
    "audit": ("sound", "found", "none"),
    "needs": ("nothing", "sandbox", "network", "secrets"),
    "licence": (),
}
"""What a search can be narrowed by, with the values in order; empty for any text."""


@dataclass(frozen=True)
class Query:
    """A search: words, filters and order, and which part of the results to return."""

    words: str = ""
    order: Order = "relevance"
    namespace: str | None = None
    tag: str | None = None
    passed_only: bool = False
    kind: str | None = None
    """How it is made, one of `FACETS["kind"]`."""
    audit: str | None = None
    """The state of its latest audit."""
    needs: str | None = None
    """What it needs to play; `nothing` for what needs none of these."""
    licence: str | None = None
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True)
class Found:
    """The environments found, each with its latest version, and the number of all matches."""

    listings: list[Listing]
    total: int


def search(index: Index, query: Query) -> Found:
    """Search the latest version of every environment that has a version not yanked."""
    source, where, values, words = _asked(query)
    if where is None:
        return Found([], 0)
    rank = "bm25(words, 8.0, 3.0, 4.0) AS fit" if words else "0.0 AS fit"
    by = _WITHOUT_WORDS if query.order == "relevance" and not words else _BY[query.order]
    with index.use() as connection:
        (total,) = connection.execute(f"SELECT count(*) FROM {source} WHERE {where}", values).fetchone()
        rows = connection.execute(
            f"SELECT {COLUMNS}, {rank} FROM {source} WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?",
            (*values, query.limit, query.offset),
        ).fetchall()
    return Found([listing_of(row) for row in rows], total)


def _asked(query: Query) -> tuple[str, str | None, list[Any], str]:
    """The tables, the condition (None where nothing can match), its values, and the words of a search."""
    conditions, values = ["v.is_latest", "v.yanked IS NULL"], list[Any]()
    words = _match(query.words)
    if query.words.strip() and not words:
        return FROM, None, values, words
    source = FROM
    if words:
        source = "words JOIN versions v ON v.id = words.rowid LEFT JOIN downloads d ON d.name = v.name"
        conditions.insert(0, "words MATCH ?")
        values.append(words)
    if query.namespace:
        conditions.append("v.name >= ? AND v.name < ?")
        values += (f"{query.namespace}/", f"{query.namespace}0")  # 0 comes right after the slash
    if query.tag:
        conditions.append("EXISTS (SELECT 1 FROM json_each(v.facts, '$.tags') t WHERE t.value = ?)")
        values.append(query.tag)
    if query.passed_only:
        conditions.append("v.passed")
    for name in FACETS:
        if (value := getattr(query, name)) is not None:
            condition, given = _chosen(name, value)
            conditions.append(condition)
            values += given
    return source, " AND ".join(conditions), values, words


def _chosen(name: str, value: str) -> tuple[str, list[Any]]:
    """The condition that a facet has a value."""
    if name == "needs":
        return ("trim(v.needs) = ''", []) if value == "nothing" else ("instr(v.needs, ?)", [f" {value} "])
    return f"v.{name} = ?", [value]


def facet_counts(index: Index, query: Query) -> dict[str, dict[str, int]]:
    """For each facet, how many environments the search finds with each of its values, the facet itself left open."""
    return {name: _counted(index, replace(query, **{name: None}), name) for name in FACETS}


def _counted(index: Index, query: Query, name: str) -> dict[str, int]:
    source, where, values, _ = _asked(query)
    if where is None:
        return {}
    column = "v.needs" if name == "needs" else f"v.{name}"
    with index.use() as connection:
        rows = connection.execute(
            f"SELECT {column} AS value, count(*) AS count FROM {source} WHERE {where} GROUP BY 1", values
        ).fetchall()
    found = Counter[str]()
    for row in rows:
        for value in row["value"].split() or ["nothing"] if name == "needs" else [row["value"]]:
            found[value] += row["count"]
    known = FACETS[name] or tuple(value for value, _ in found.most_common(_MOST_VALUES))
    return {value: found[value] for value in known if value and found[value]}


def _match(text: str) -> str:
    """The words as an FTS5 query: all must match, each as the beginning of a word; operators are not interpreted."""
    words = "".join(letter if letter.isalnum() else " " for letter in text).split()[:_MOST_WORDS]
    return " ".join(f'"{word}"*' for word in words)
