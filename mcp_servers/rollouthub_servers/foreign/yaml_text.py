"""Reads YAML of strangers: its aliases can stand for more values than any memory holds."""

from itertools import chain
from typing import Any

import yaml

MOST_VALUES = 100_000
"""Most values of a document, each counted as often as an alias repeats it."""


def read_yaml(text: str) -> Any:
    """The value of one YAML document, as `yaml.safe_load` gives it.

    Raises:
        ValueError: it is not YAML, or has too many values.
    """
    loader: Any = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _count(node, {}) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values, counting what its aliases repeat")
        return loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    finally:
        loader.dispose()


def _count(node: Any, known: dict[int, int]) -> int:
    """Number of values in a node, at most a little more than is allowed."""
    found = known.get(id(node))
    if found is None:
        known[id(node)] = MOST_VALUES + 1  # what holds itself is endless
        found = 1
        values: list[Any] = node.value if isinstance(node, yaml.CollectionNode) else []
        for part in chain.from_iterable(values) if isinstance(node, yaml.MappingNode) else values:
            found = min(found + _count(part, known), MOST_VALUES + 1)
        known[id(node)] = found
    return found
