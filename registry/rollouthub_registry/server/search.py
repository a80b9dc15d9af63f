"""Searches environments by words and quality: by full-text rank, and at equal rank the better checked first."""

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Query:
    """A search: words, filters and order, and which part of the results to return."""

    words: str = ""
    order: Order = "relevance"
    namespace: str | None = None
    tag: str | None = None
    passed_only: bool = False
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True)
class Found:
    """The environments found, each with its latest version, and the number of all matches."""

    listings: list[Listing]
    total: int


def search(index: Index, query: Query) -> Found:
    """Search the latest version of every environment that has a version not yanked."""
    conditions, values = ["v.is_latest", "v.yanked IS NULL"], list[Any]()
    words = _match(query.words)
    if query.words.strip() and not words:
        return Found([], 0)
    source = FROM
    rank = "0.0 AS fit"
    if words:
        source = "words JOIN versions v ON v.id = words.rowid LEFT JOIN downloads d ON d.name = v.name"
        rank = "bm25(words, 8.0, 3.0, 4.0) AS fit"
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
    where = " AND ".join(conditions)
    by = _WITHOUT_WORDS if query.order == "relevance" and not words else _BY[query.order]
    with index.use() as connection:
        (total,) = connection.execute(f"SELECT count(*) FROM {source} WHERE {where}", values).fetchone()
        rows = connection.execute(
            f"SELECT {COLUMNS}, {rank} FROM {source} WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?",
            (*values, query.limit, query.offset),
        ).fetchall()
    return Found([listing_of(row) for row in rows], total)


def _match(text: str) -> str:
    """The words as an FTS5 query: all must match, each as the beginning of a word; operators are not interpreted."""
    words = "".join(letter if letter.isalnum() else " " for letter in text).split()[:_MOST_WORDS]
    return " ".join(f'"{word}"*' for word in words)
