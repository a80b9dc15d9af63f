"""Why a supply cannot go on."""

from envhub.errors import HubError


class SupplyError(HubError):
    """No more rollouts come, or weights could not be exchanged; what is committed stays, and `resume` goes on."""
