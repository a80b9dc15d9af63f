"""What is served by hand is what was seen to be sound."""

import pytest

from rollouthub.errors import ConfigError
from rollouthub.hosting.server.serve import Service, serve


async def test_tools_that_changed_since_they_were_seen_are_not_served() -> None:
    async def at_once() -> None:
        pass

    served: list[object] = []
    service = Service("arithmetic", "control-token-of-this-test", tools_digest="sha256:0")
    with pytest.raises(ConfigError, match=r"arithmetic offers other tools than a moment ago .* instead of sha256:0"):
        await serve(service, served.append, at_once, lambda: None)
    assert served == []
