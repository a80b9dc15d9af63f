"""Text for everybody: nothing unseen, no secret, no more of a path than its end."""

from hypothesis import given
from hypothesis import strategies as st

from rollouthub.views.report.redacted_text import Plainness, shortened

PLAINNESS = Plainness(lambda text: text.replace("opensesame", "[redacted]"))


@given(st.text(max_size=300), st.integers(1, 60))
def test_what_was_said_is_printable_and_bounded(text: str, most: int) -> None:
    said = PLAINNESS.said(text, most)
    assert all(letter in "\n\t" or letter.isprintable() for letter in said)
    assert len(said) <= most + len(" … [300 characters in all]")


def test_letters_do_not_pile_up() -> None:
    assert PLAINNESS.said("a" + "\u0301" * 500 + "b", 900) == "a" + "\u0301" * 3 + "b"


def test_paths_keep_their_end_and_addresses_lose_their_credentials() -> None:
    assert shortened("no /home/me/data/rows.jsonl, see /var/log/") == "no …/rows.jsonl, see …/"
    assert shortened("http://me:pass@host:1/v1?api_key=abc&x=1") == "http://[redacted]@host:1/v1?api_key=[redacted]&x=1"
    assert shortened("a/b and 1/2 and http://host/a/b and ./c/d") == "a/b and 1/2 and http://host/a/b and ./c/d"


def test_settings_lose_secrets_by_value_and_by_name() -> None:
    found = PLAINNESS.settings({"api_key": "short", "max_tokens": 5, "deep": [{"PASSWORD": 1}], "said": "opensesame"})
    assert found == {
        "api_key": "[redacted]",
        "max_tokens": 5,
        "deep": [{"PASSWORD": "[redacted]"}],
        "said": "[redacted]",
    }


def test_what_is_not_set_is_left_out() -> None:
    assert PLAINNESS.settings({"a": None, "b": {}, "c": [], "d": False, "e": 0}) == {"d": False, "e": 0}
