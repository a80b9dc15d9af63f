"""Packed numbers behave as the sequences they are, at four bytes each."""

import copy
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from rollouthub.values import Float32s, Int32s

int_lists = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20)
float_lists = st.lists(st.floats(width=32, allow_nan=False), max_size=20)
adapter = TypeAdapter(Int32s)


@given(int_lists)
def test_ids_come_back_as_they_went_in(values: list[int]) -> None:
    packed = Int32s(values)
    assert packed.tolist() == list(packed) == values
    assert len(packed) == len(values)
    assert len(packed.raw) == 4 * len(values)
    assert Int32s.from_bytes(packed.raw) == packed


@given(float_lists)
def test_floats_of_32_bits_come_back_exactly(values: list[float]) -> None:
    assert Float32s(values).tolist() == values


@given(int_lists, int_lists)
def test_concatenation_slices_and_prefixes_agree_with_lists(left: list[int], right: list[int]) -> None:
    both = Int32s(left) + Int32s(right)
    assert both.tolist() == left + right
    assert both[: len(left)] == Int32s(left)
    assert both[len(left) :] == Int32s(right)
    assert both.startswith(Int32s(left))


@given(int_lists, st.integers(-25, 25), st.integers(-25, 25))
def test_a_slice_cuts_what_a_list_slice_cuts(values: list[int], start: int, stop: int) -> None:
    assert Int32s(values)[start:stop].tolist() == values[start:stop]


@given(int_lists, int_lists, int_lists)
def test_the_shared_prefix_is_the_longest(shared: list[int], left: list[int], right: list[int]) -> None:
    one, other = [*shared, *left], [*shared, *right]
    expected = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    expected = min(len(one), len(other)) if expected is None else expected
    assert Int32s(one).shared_prefix(Int32s(other)) == expected


@given(int_lists)
def test_equal_contents_are_equal_and_hash_alike(values: list[int]) -> None:
    assert Int32s(values) == Int32s(values)
    assert hash(Int32s(values)) == hash(Int32s(values))


def test_ids_and_floats_of_the_same_bytes_are_different() -> None:
    assert Int32s([0]) != Float32s([0.0])


@given(int_lists)
def test_json_is_base64_and_a_list_is_accepted_too(values: list[int]) -> None:
    packed = Int32s(values)
    assert adapter.validate_json(adapter.dump_json(packed)) == packed
    assert adapter.validate_python(values) == packed


@pytest.mark.parametrize("bad", ["AAA=", "not base64!", [1.5], ["1"], [2**31], 7, None])
def test_what_is_no_sequence_of_ids_is_refused(bad: object) -> None:
    with pytest.raises(ValidationError):
        adapter.validate_python(bad)


def test_bytes_of_a_torn_length_are_refused() -> None:
    with pytest.raises(ValueError, match="5 bytes"):
        Int32s.from_bytes(b"12345")


@given(int_lists)
def test_packed_numbers_copy_and_pickle(values: list[int]) -> None:
    packed = Int32s(values)
    assert pickle.loads(pickle.dumps(packed)) == copy.deepcopy(packed) == packed


def test_logprobs_may_say_that_a_token_was_impossible() -> None:
    assert Float32s([-math.inf]).tolist() == [-math.inf]
