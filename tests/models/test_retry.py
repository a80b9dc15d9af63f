"""Back-off and `Retry-After`."""

from rollouthub.errors import ContextLimitError
from rollouthub.models.retry import Backoff, TryFailed, parse_retry_after, trimmed


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(base_seconds=1.0, cap_seconds=5.0, jitter=lambda: 1.0)
    assert [backoff.wait_seconds(failures, None) for failures in (1, 2, 3, 4, 5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_jitter_is_full() -> None:
    assert Backoff(jitter=lambda: 0.0).wait_seconds(3, None) == 0.0


def test_never_waits_less_than_the_server_asked() -> None:
    assert Backoff(base_seconds=0.5, jitter=lambda: 0.0).wait_seconds(1, 7.0) == 7.0


def test_retry_after_is_seconds_or_a_date() -> None:
    assert parse_retry_after("3") == 3.0
    assert parse_retry_after("0.25") == 0.25
    assert parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=lambda: 40.0) == 60.0
    assert parse_retry_after("Thu, 01 Jan 1970 00:01:40 GMT", now=lambda: 4000.0) == 0.0


def test_a_retry_after_that_is_neither_is_ignored() -> None:
    assert [parse_retry_after(value) for value in (None, "", "soon", "-1", "inf", "nan")] == [None] * 6


def test_long_words_of_a_server_are_trimmed() -> None:
    assert len(trimmed("word " * 1000)) == 500
    assert trimmed("a\n  b") == "a b"


def test_a_failed_try_becomes_an_error_with_secrets_masked() -> None:
    failed = TryFailed("the key hush-hush is wrong", status=500)
    error = failed.as_error("openai/x", 3, lambda text: text.replace("hush-hush", "…"))
    assert str(error) == "openai/x: the key … is wrong (after 3 tries)"
    assert (error.status, error.retryable) == (500, True)


def test_a_context_limit_keeps_its_type() -> None:
    assert isinstance(TryFailed("too long", is_context_limit=True).as_error("x", 1, str), ContextLimitError)
