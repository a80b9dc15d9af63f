"""The router: one model over several servers, with rate limits, a budget and fallback models."""

from rollouthub.models.router.circuit_breaker import CircuitBreakerSettings
from rollouthub.models.router.open_router import OpenLane, open_router
from rollouthub.models.router.replica import ReplicaStatus
from rollouthub.models.router.router import Router

__all__ = ["CircuitBreakerSettings", "OpenLane", "ReplicaStatus", "Router", "open_router"]
