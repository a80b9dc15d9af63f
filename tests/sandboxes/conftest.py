"""What tests of sandboxes share: Podman, started once for a whole session."""

from collections.abc import Generator

import pytest

from tests.sandboxes.podman import NoPodman, podman_service


@pytest.fixture(scope="session")
def podman() -> Generator[str]:
    """Podman's address, as DOCKER_HOST has it; skipped aloud where it cannot be tested."""
    try:
        with podman_service() as host:
            yield host
    except NoPodman as error:
        pytest.skip(str(error))
