"""What the baseline may excuse: features environments do not offer, each with its reason; never what they do."""

import pytest

from tests.conformance.baseline import entries

NOT_OFFERED = ("Completion", "Elicitation", "Logging", "Prompts", "Resources", "Roots", "Sampling")
OFFERED = ("tools-list", "ping", "server-initialize", "server-session-lifecycle", "server-stateless", "caching")
BY_NATURE = (
    "http-",
    "dns-",
    "server-sse-",
    "json-schema-",
    "tools-call-simple",
    "tools-call-error",
    "tools-call-with-p",
)


@pytest.mark.parametrize("entry", entries())
def test_an_entry_says_which_feature_is_not_offered(entry: str) -> None:
    reason = entries()[entry]
    assert reason.startswith(NOT_OFFERED), reason
    assert len(reason) > len("Resources: as above")


@pytest.mark.parametrize("entry", entries())
def test_nothing_that_environments_do_offer_is_excused(entry: str) -> None:
    assert entry not in OFFERED
    assert not entry.startswith(BY_NATURE)
    if entry.startswith("tools-call-"):
        assert entry in ("tools-call-with-logging", "tools-call-sampling", "tools-call-elicitation")
    if ":" in entry:
        assert entries()[entry].startswith("Sampling")
