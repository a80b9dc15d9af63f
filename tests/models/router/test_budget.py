"""The budget: never more set aside and spent than there is, and refused only when nothing can come back."""

import anyio
import pytest

from rollouthub.errors import BudgetError
from rollouthub.models.router.budget import Budget


async def test_a_call_waits_for_what_others_hold_and_may_give_back() -> None:
    budget = Budget("m", 1.0)
    await budget.reserve(0.75)
    assert not budget.try_reserve(0.5)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(budget.reserve, 0.5)
            await anyio.wait_all_tasks_blocked()
            budget.release(0.75, 0.25)
    budget.release(0.5, 0.5)
    assert budget.spent == 0.75


async def test_it_is_refused_once_nothing_can_come_back() -> None:
    budget = Budget("m", 1.0)
    assert budget.try_reserve(0.9)
    budget.release(0.9, 0.9)
    with pytest.raises(BudgetError, match=r"\$0.9 of \$1 are spent, and this call may cost \$0.2") as caught:
        await budget.reserve(0.2)
    assert not caught.value.retryable
    assert budget.try_reserve(0.1)


async def test_everyone_in_line_is_refused_when_the_money_is_gone() -> None:
    budget, refused = Budget("m", 1.0), list[float]()
    await budget.reserve(1.0)

    async def ask(dollars: float) -> None:
        try:
            await budget.reserve(dollars)
        except BudgetError:
            refused.append(dollars)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for dollars in (0.5, 0.3):
                tasks.start_soon(ask, dollars)
                await anyio.wait_all_tasks_blocked()
            budget.release(1.0, 1.0)
    assert refused == [0.5, 0.3]


async def test_a_wait_that_is_cancelled_leaves_nothing_set_aside() -> None:
    whole = Budget("m", 10.0)
    part = Budget("other", 1.0, whole)
    await part.reserve(1.0)
    with anyio.move_on_after(0):
        await part.reserve(1.0)
    part.release(1.0, 0.0)
    assert whole.try_reserve(10.0)


async def test_what_a_stand_in_costs_is_its_principals_too() -> None:
    whole = Budget("m", 1.0)
    part = Budget("other", None, whole)
    assert part.is_limited
    assert part.try_reserve(1.0)
    assert not whole.try_reserve(0.1)
    part.release(1.0, 0.5)
    assert (part.spent, whole.spent) == (0.5, 0.5)
    with pytest.raises(BudgetError, match="budget of m"):
        part.try_reserve(0.6)


async def test_a_free_model_has_no_need_of_money() -> None:
    assert Budget("m", 0.0).try_reserve(0.0)
