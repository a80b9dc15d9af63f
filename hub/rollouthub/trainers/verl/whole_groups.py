"""Complete groups for veRL's V1 trainer: collects trainable members, and cancels the stragglers."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from pydantic import Field, ValidationError

from rollouthub.errors import ConfigError, SupplyError, invalid_fields, raise_first_error
from rollouthub.export import NotTrainable
from rollouthub.trainers.verl.outputs import Output
from rollouthub.values import Frozen

logger = logging.getLogger(__name__)


class GroupRules(Frozen):
    """When a group is complete; the fields are named as in `rollouthub.stream_rollouts`."""

    redundancy: int = Field(default=0, ge=0)
    """Samples begun beyond the group's size: the first trainable ones make the group, the rest are cancelled."""
    min_group: int | None = Field(default=None, ge=1)
    """Trainable members that a group needs; None means all."""


ANY = GroupRules(min_group=1)
"""The rules for validation: any number of members from one."""


def group_rules(given: Mapping[str, Any]) -> GroupRules:
    """Validate the rules in a configuration file.

    Raises:
        ConfigError: a rule is unknown or invalid.
    """
    try:
        return GroupRules.model_validate(dict(given))
    except ValidationError as error:
        raise ConfigError(f"veRL's `groups` does not hold: {invalid_fields(error, most=5)}") from None


async def whole_group(play: Callable[[], Awaitable[list[Output]]], size: int, rules: GroupRules) -> list[list[Output]]:
    """Play all samples of a group at once. Returns the outputs of the first `size` trainable ones, in the order in
    which they ended.

    Raises:
        SupplyError: fewer samples are trainable than the rules require, or the run has ended.
        UsageError, StoreError: as `play`.
    """
    kept: list[list[Output]] = []

    async def member(scope: anyio.CancelScope) -> None:
        try:
            outputs = await play()
        except NotTrainable as error:
            logger.warning("a member of a group is left out: %s", error)
            return
        kept.append(outputs)
        if len(kept) == size:
            scope.cancel()

    async with raise_first_error(), anyio.create_task_group() as members:
        for _ in range(size + rules.redundancy):
            members.start_soon(member, members.cancel_scope)
    least = size if rules.min_group is None else min(rules.min_group, size)
    if len(kept) < least:
        begun = size + rules.redundancy
        raise SupplyError(f"of {begun} samples {len(kept)} may be learnt from, and a group needs {least}")
    return kept[:size]


def no_groups(given: Any) -> None:
    """Refuse group rules where veRL requests samples one by one.

    Raises:
        ConfigError: rules are given.
    """
    if given is not None:
        raise ConfigError(
            "`groups` are made by one manager alone: let rollout.agent.agent_loop_manager_class be "
            "rollouthub.trainers.verl.HubAgentLoopManagerTQ, with trainer.use_v1=True, or leave them out"
        )
