"""What providers say of their limits, as it comes in headers."""

import pytest

from rollouthub.models.quota import Allowance, Quota, parse_quota


def test_headers_of_the_openai_wire_are_read() -> None:
    quota = parse_quota(
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "15",
            "x-ratelimit-reset-requests": "45s",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-tokens": "6m0s",
        }
    )
    assert quota is not None
    assert quota == Quota(Allowance(15, 60, 45.0), Allowance(149984, 150000, 360.0))
    assert quota.requests is not None
    assert (quota.requests.used, quota.requests.next_in_seconds) == (0.75, 1.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120ms", 0.12),
        ("1h2m3.5s", 3723.5),
        ("7", 7.0),
        ("", None),
        ("soon", None),
        ("1s!", None),
        ("1790000000", None),
    ],
)
def test_times_are_read_in_every_form_or_not_at_all(text: str, seconds: float | None) -> None:
    quota = parse_quota({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": text})
    assert quota == Quota(Allowance(1, None, seconds), None)


@pytest.mark.parametrize("left", ["", "-1", "1e3", "many", "9" * 20])
def test_what_is_no_number_is_ignored(left: str) -> None:
    assert parse_quota({"x-ratelimit-remaining-requests": left}) == Quota(None, None)


def test_answers_that_say_nothing_leave_nothing() -> None:
    assert parse_quota({"content-type": "application/json"}) is None
