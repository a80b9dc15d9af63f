"""Simulated users: who answers an agent in a multi-turn environment, from a script or through a model."""

from envhub.users.model import ModelUser, UserSheet
from envhub.users.script import Cue, ScriptedUser, Stage, UserScript
from envhub.users.user import SimulatedUser

__all__ = ["Cue", "ModelUser", "ScriptedUser", "SimulatedUser", "Stage", "UserScript", "UserSheet"]
