"""Merkle trees as in Certificate Transparency (RFC 6962, section 2.1): roots, and proofs that a leaf is below a root.

Leaves and inner nodes are hashed with different prefixes, so that no node can be passed off as a leaf.
"""

import hashlib
from collections.abc import Sequence

_LEAF, _NODE = b"\x00", b"\x01"
DIGEST_BYTES = 32


def leaf_hash(content: bytes) -> bytes:
    """The hash of a leaf's content, 32 bytes."""
    return hashlib.sha256(_LEAF + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node over the hashes of its two halves."""
    return hashlib.sha256(_NODE + left + right).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over the hashes of leaves, in their order; of no leaves the hash of nothing.

    Halves by levels: a level's last odd node moves up as it is, which makes the same tree as the RFC's split at the
    largest power of two.
    """
    if not leaves:
        return hashlib.sha256().digest()
    level = list(leaves)
    while len(level) > 1:
        level = _level_above(level)
    return level[0]


def inclusion_proof(leaves: Sequence[bytes], place: int) -> tuple[bytes, ...]:
    """The hashes that lead from one leaf up to the root (the RFC's audit path).

    Raises:
        IndexError: there is no leaf at this place.
    """
    if not 0 <= place < len(leaves):
        raise IndexError(f"there is no leaf {place} among {len(leaves)}")
    path: list[bytes] = []
    level = list(leaves)
    while len(level) > 1:
        beside = place ^ 1
        if beside < len(level):
            path.append(level[beside])
        level, place = _level_above(level), place // 2
    return tuple(path)


def root_of_proof(leaf: bytes, place: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a proof leads to; None if it has not the length of a proof of this place among `count` leaves."""
    if not 0 <= place < count:
        return None
    found, left = leaf, list(path)
    last = count - 1
    while last:
        beside = place ^ 1
        if beside <= last:
            if not left:
                return None
            other = left.pop(0)
            found = node_hash(other, found) if place & 1 else node_hash(found, other)
        place, last = place // 2, last // 2
    return None if left else found


def _level_above(level: Sequence[bytes]) -> list[bytes]:
    above = [node_hash(level[place], level[place + 1]) for place in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        above.append(level[-1])
    return above
