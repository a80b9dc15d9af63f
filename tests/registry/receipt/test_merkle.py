"""The tree: the RFC's own definition, and proofs that show a leaf and nothing else."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub_registry.receipt.merkle import inclusion_proof, leaf_hash, merkle_root, node_hash, root_of_proof

LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=40).map(lambda contents: list(map(leaf_hash, contents)))


def defined_root(leaves: list[bytes]) -> bytes:
    """The root as RFC 6962 defines it: split at the largest power of two below the number of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return hashlib.sha256(b"\x01" + defined_root(leaves[:half]) + defined_root(leaves[half:])).digest()


@given(LEAVES)
def test_the_root_is_the_one_that_the_rfc_defines(leaves: list[bytes]) -> None:
    assert merkle_root(leaves) == defined_root(leaves)


@given(LEAVES, st.data())
def test_a_proof_leads_from_its_leaf_to_the_root_and_from_nowhere_else(
    leaves: list[bytes], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(leaves) - 1))
    path, root = inclusion_proof(leaves, place), merkle_root(leaves)
    assert root_of_proof(leaves[place], place, len(leaves), path) == root
    assert root_of_proof(leaf_hash(b"another leaf"), place, len(leaves), path) != root
    assert root_of_proof(leaves[place], place, len(leaves), (*path, root)) is None
    assert root_of_proof(leaves[place], len(leaves), len(leaves), path) is None
    if path:
        assert root_of_proof(leaves[place], place, len(leaves), path[:-1]) is None
        changed = bytes([path[0][0] ^ 1]) + path[0][1:]
        assert root_of_proof(leaves[place], place, len(leaves), (changed, *path[1:])) != root


@given(LEAVES, st.data())
def test_whatever_happens_to_a_leaf_changes_the_root(leaves: list[bytes], data: st.DataObject) -> None:
    place, root = data.draw(st.integers(0, len(leaves) - 1)), merkle_root(leaves)
    without = leaves[:place] + leaves[place + 1 :]
    assert merkle_root(without) != root
    assert merkle_root([*leaves, leaf_hash(b"one more")]) != root
    swapped = leaves[::-1]
    assert (merkle_root(swapped) == root) == (swapped == leaves)


def test_a_node_is_no_leaf() -> None:
    one, other = leaf_hash(b"1"), leaf_hash(b"2")
    assert leaf_hash(one + other) != node_hash(one, other)
    assert merkle_root([]) == hashlib.sha256().digest()
    with pytest.raises(IndexError, match="no leaf 2 among 2"):
        inclusion_proof([one, other], 2)
