"""The canonical form of records: the same bytes whatever order, database or hub version they are read from.

It is JSON in UTF-8 with the keys of every object in the order of their code points, without spaces, and numbers as
Python's `json` writes them. Fields of a record that are None are left out, as if they had never been added to it; a
null inside tool arguments or other JSON of an author stays. Token arrays are base64 of little-endian values.
"""

import hashlib
import json
from typing import Any, cast

from rollouthub.errors import RunDirectoryError
from rollouthub.rollout import Rollout
from rollouthub_registry.receipt.merkle import leaf_hash

FORM = "urn:rollouthub:rollout-form:v1"
"""Names the canonical form of a rollout. Where any byte of it changes for a record of today, that is a new form."""
ADDED_SINCE: dict[str, Any] = {"openings": []}
"""Path of a field that was added to the record after this form was fixed, such as `turns.retries` → its default,
which is left out like None.

Whoever adds a field whose default is not None adds it here; a test compares the record's fields with those of v1.
"""


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of a JSON value.

    Raises:
        ValueError: it holds what JSON has not, such as NaN or half a surrogate pair.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def canonical_rollout(rollout: Rollout, *, is_effective: bool) -> bytes:
    """The bytes that stand for one attempt: the whole record, and whether it is the one that counts for its sample.

    Raises:
        RunDirectoryError: the record holds values that no record of the hub holds.
    """
    try:
        fields: dict[str, Any] = json.loads(rollout.model_dump_json(by_alias=True, exclude_none=True))
        for path, default in ADDED_SINCE.items():
            _leave_out(fields, path.split("."), default)
        return canonical_json({"effective": is_effective, "form": FORM, "rollout": fields})
    except (ValueError, RecursionError) as error:
        raise RunDirectoryError(f"a record cannot be put into its canonical form: {error}") from error


def rollout_leaf(rollout: Rollout, *, is_effective: bool) -> bytes:
    """The hash of an attempt's leaf in the tree of its run, 32 bytes.

    Raises:
        RunDirectoryError: the record holds values that no record of the hub holds.
    """
    return leaf_hash(canonical_rollout(rollout, is_effective=is_effective))


def json_digest(value: Any) -> str:
    """`sha256:…` of a JSON value in its canonical form.

    Raises:
        ValueError: it holds what JSON has not.
    """
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def _leave_out(value: Any, path: list[str], default: Any) -> None:
    """Remove a field from an object, or from each object of a list, where it has its default."""
    if isinstance(value, list):
        for each in cast(list[Any], value):
            _leave_out(each, path, default)
    elif isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        if len(path) > 1:
            _leave_out(fields.get(path[0]), path[1:], default)
        elif path[0] in fields and fields[path[0]] == default:
            del fields[path[0]]
