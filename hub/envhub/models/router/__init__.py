"""The router: one model over several servers, with limits, a budget, and others to stand in."""

from envhub.models.router.cooling import Cooling
from envhub.models.router.opening import OpenLane, open_router
from envhub.models.router.replica import ReplicaStatus
from envhub.models.router.router import Router

__all__ = ["Cooling", "OpenLane", "ReplicaStatus", "Router", "open_router"]
