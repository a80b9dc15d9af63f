"""A few of many, evenly spaced."""

from hypothesis import given
from hypothesis import strategies as some

from rollouthub.statistics.spacing import evenly_spaced


@given(some.integers(0, 300), some.integers(1, 40))
def test_the_first_and_the_last_are_among_them_and_none_comes_twice(count: int, most: int) -> None:
    found = evenly_spaced(range(count), most)
    assert len(found) == min(count, most)
    assert found == sorted(set(found))
    if count and most > 1:
        assert (found[0], found[-1]) == (0, count - 1)
    assert evenly_spaced(range(count), count) == [*range(count)]
