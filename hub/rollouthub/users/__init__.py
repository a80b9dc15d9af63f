"""Simulated users: who answers an agent in a multi-turn environment, from a script or through a model."""

from rollouthub.users.model import ModelUser, UserSheet
from rollouthub.users.script import Cue, ScriptedUser, Stage, UserScript
from rollouthub.users.user import SimulatedUser

__all__ = ["Cue", "ModelUser", "ScriptedUser", "SimulatedUser", "Stage", "UserScript", "UserSheet"]
