"""One error tree, and messages a reader can act on."""

import inspect

from hypothesis import given
from hypothesis import strategies as st

from rollouthub import errors
from rollouthub.errors import DataError, EpisodeStop, HubError, UnknownNameError


def test_every_error_is_a_hub_error_and_in_the_drawing() -> None:
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, Exception)]
    drawing = errors.__doc__ or ""
    for found in classes:
        if found is not EpisodeStop:
            assert issubclass(found, HubError)
    assert [found.__name__ for found in classes if found.__name__ not in drawing] == []


def test_a_stop_is_no_error_and_no_handler_of_errors_catches_it() -> None:
    assert not issubclass(EpisodeStop, HubError)


def test_an_unknown_name_meets_its_nearest() -> None:
    error = UnknownNameError("environment", "arithmatic", ["gsm8k", "arithmetic"])
    assert "did you mean 'arithmetic'?" in str(error)


def test_a_name_like_no_other_meets_the_whole_list() -> None:
    assert "Known: gsm8k, math." in str(UnknownNameError("environment", "zzz", ["math", "gsm8k"]))


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_unknown_name_makes_a_message(name: str, known: list[str]) -> None:
    assert repr(name) in str(UnknownNameError("agent", name, known))


def test_a_bad_row_is_found_by_file_and_line() -> None:
    assert str(DataError("no answer", "tasks.jsonl", 7)) == "tasks.jsonl:7: no answer"
