"""A case: a user with one or more requests, as a task with everything needed to verify it."""

from collections.abc import Sequence
from random import Random
from typing import Literal, get_args

import msgspec
from pydantic import JsonValue

from rollouthub import Message, Public, Secret, Task, ToolRequest
from rollouthub.authoring.users import Cue, Stage, UserScript, UserSheet
from rollouthub.messages import assistant
from rollouthub_servers.customer_service.database import Customer, Database
from rollouthub_servers.customer_service.policy import POLICY
from rollouthub_servers.customer_service.shop_generator import ShopGenerator
from rollouthub_servers.customer_service.user_requests import (
    ALLOWED,
    CONFIRM,
    FORBIDDEN,
    Call,
    Maker,
    Request,
    hand_over,
)

Kind = Literal["simple", "several", "forbidden", "mistaken", "transfer"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SHARES = (4, 2, 3, 2, 1)
"""Relative frequency of each kind."""

# Not where the agent still waits for a yes: then the matter is not closed.
CLOSING = (
    rf"^(?s:(?!.*(?:{CONFIRM})).*)"
    r"(?:anything else|anything more|something else i can|what else|good ?bye|take care"
    r"|have a (?:great|good|nice|lovely|wonderful) |transferr?(?:ed|ing) you|hand(?:ed|ing) you over)"
)
_ASKS_WHO = r"e-?mail|\bnames?\b|\bzip|postal|post ?code|identi|verif"
_ASKS_ORDER = r"\border (?:number|id|#|no\b)|(?:which|what) order|order.{0,40}\?"
_PERSONAS = (
    "{name}, friendly and in no hurry",
    "{name}, in a hurry, who writes short messages",
    "{name}, a little confused by online shops",
    "{name}, annoyed, but fair",
)


class CaseSecret(Secret):
    """What only the verifier and the user know."""

    kind: Kind
    database: Database
    """The database at the start of the episode."""
    changes: dict[str, JsonValue]
    """The required changes (path → new value); no others may be made."""
    amounts: tuple[int, ...]
    """Amounts in cents that the user must be told."""
    opening: str
    script: UserScript
    sheet: UserSheet


class _Mistake:
    """A detail that the user first gives wrong: the e-mail address or the order number."""

    def __init__(self, world: ShopGenerator, customer: Customer, kind: Literal["email", "order"]) -> None:
        self.kind = kind
        self.email = customer.email.replace("@", "@mail.", 1)
        self.order = world.free_number()


def make_case(task_id: str, stream: Random, only: Kind | None = None) -> Task[Public, CaseSecret]:
    """Generate one task; equal random streams give equal tasks."""
    kind = only or stream.choices(KINDS, _SHARES)[0]
    world = ShopGenerator(stream)
    customer_id = stream.choice(world.customers)
    customer = world.database.customers[customer_id]
    requests = [maker(world, customer_id) for maker in _makers(stream, kind)]
    mistake = _Mistake(world, customer, stream.choice(("email", "order"))) if kind == "mistaken" else None
    first = requests[0]
    hides_order = first.vague is not None and (mistake is not None or (len(requests) == 1 and stream.random() < 0.5))
    opening = first.vague if hides_order and first.vague else first.says
    by_name = mistake is None and stream.random() < 0.4
    who = _who(customer, by_name)
    opening = f"{stream.choice(('Hello!', 'Hi there.', 'Good morning.', 'Hey,'))} {opening}"
    secret = CaseSecret(
        reference=_reference(requests, who, by_name, customer, mistake, hides_order),
        kind=kind,
        database=world.finished(),
        changes={path: value for request in requests for path, value in request.changes.items()},
        amounts=tuple(amount for request in requests for amount in request.amounts),
        opening=opening,
        script=_script(requests, who, mistake, opening),
        sheet=_sheet(stream, requests, customer, mistake),
    )
    return Task(Public(id=task_id, prompt=opening, system=POLICY), secret)


def _makers(stream: Random, kind: Kind) -> Sequence[Maker]:
    match kind:
        case "several":
            return stream.sample(ALLOWED, 2 + stream.randrange(2))
        case "forbidden":
            return [stream.choice(FORBIDDEN)]
        case "transfer":
            return [hand_over]
        case _:
            return [stream.choice(ALLOWED)]


def _who(customer: Customer, by_name: bool) -> str:
    if by_name:
        return f"My name is {customer.name}, and my zip code is {customer.address.zip}."
    return f"My e-mail address is {customer.email}."


def _script(requests: list[Request], who: str, mistake: _Mistake | None, opening: str) -> UserScript:
    stages: list[Stage] = []
    for place, request in enumerate(requests):
        cues = list(request.cues)
        if request.order is not None:
            says = (f"It's order {request.order}.",)
            if mistake is not None and mistake.kind == "order":
                says = (f"It's order {mistake.order}.", f"Sorry, I misread it. It's order {request.order}.")
            cues.insert(0, Cue(when=_ASKS_ORDER, says=says, in_requests=True))
        says = opening if place == 0 else f"Yes, one more thing. {request.says}"
        stages.append(Stage(says=says, cues=tuple(cues)))
    whos = (who,)
    if mistake is not None and mistake.kind == "email":
        whos = (f"My e-mail address is {mistake.email}.", f"Oh, I mistyped it. {who}")
    return UserScript(
        stages=tuple(stages),
        closing=CLOSING,
        cues=(Cue(when=_ASKS_WHO, says=whos, in_requests=True),),
        fallback="All right. What do you need from me?",
    )


def _sheet(stream: Random, requests: list[Request], customer: Customer, mistake: _Mistake | None) -> UserSheet:
    facts = {"name": customer.name, "e-mail address": customer.email, "zip code": customer.address.zip}
    for request in requests:
        facts |= request.facts
    orders = [request.order for request in requests if request.order is not None]
    if orders:
        facts["order numbers"] = ", ".join(orders)
    rules = ["Say yes when the assistant proposes exactly what you want, and no to anything else."]
    if mistake is not None and mistake.kind == "email":
        rules.append(f"The first time, give the e-mail address {mistake.email}; correct it when it is not found.")
    if mistake is not None and mistake.kind == "order":
        rules.append(f"The first time, give the order number {mistake.order}; correct it when it is not found.")
    return UserSheet(
        persona=stream.choice(_PERSONAS).format(name=customer.name),
        goals=tuple(request.goal for request in requests),
        facts=facts,
        rules=tuple(rules),
    )


class _Clerk:
    """Builds the reference solution: the messages and calls of an ideal agent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def say(self, text: str) -> None:
        self.messages.append(assistant(text))

    def do(self, *calls: Call) -> None:
        for name, arguments in calls:
            request = ToolRequest(
                id=f"reference-{len(self.messages)}", name=name, arguments=msgspec.json.encode(arguments).decode()
            )
            self.messages.append(assistant("", request))


def _reference(
    requests: list[Request], who: str, by_name: bool, customer: Customer, mistake: _Mistake | None, hides_order: bool
) -> tuple[Message, ...]:
    clerk = _Clerk()
    clerk.say("Gladly. What is the e-mail address of your account, or else your name and zip code?")
    if mistake is not None and mistake.kind == "email":
        clerk.do(("find_customer", {"email": mistake.email}))
        clerk.say("I find no account under it. Please check the e-mail address.")
    known: dict[str, JsonValue] = (
        {"name": customer.name, "zip_code": customer.address.zip} if by_name else {"email": customer.email}
    )
    clerk.do(("find_customer", known))
    for place, request in enumerate(requests):
        if request.order is not None:
            if place == 0 and hides_order:
                clerk.say("Thank you. Which order is it?")
            if mistake is not None and mistake.kind == "order":
                clerk.do(("get_order", {"order_id": mistake.order}))
                clerk.say("I find no such order. Which order number is it?")
            clerk.do(("get_order", {"order_id": request.order}))
        _deal_with(clerk, request)
    return tuple(clerk.messages)


def _deal_with(clerk: _Clerk, request: Request) -> None:
    if "new address" in request.facts and request.proposal is not None:
        clerk.say("What is the new address?")
    if request.proposal is not None:
        clerk.say(request.proposal)
    clerk.do(*request.writes)
    if request.proposal is None and request.order is not None:
        clerk.say(request.report)  # the user asks for an exception
        clerk.say("I'm sorry, there are no exceptions. Is there anything else I can do for you?")
    else:
        clerk.say(f"{request.report} Is there anything else I can do for you?")
