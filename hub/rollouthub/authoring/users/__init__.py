"""Simulated users, who answer an agent in a multi-turn environment: from a script, or played by a model."""

from rollouthub.authoring.users.model_user import ModelUser, UserSheet
from rollouthub.authoring.users.scripted_user import Cue, ScriptedUser, Stage, UserScript
from rollouthub.authoring.users.simulated_user import SimulatedUser

__all__ = ["Cue", "ModelUser", "ScriptedUser", "SimulatedUser", "Stage", "UserScript", "UserSheet"]
