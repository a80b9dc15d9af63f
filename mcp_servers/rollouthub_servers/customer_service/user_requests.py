"""Requests of users: wording, what the user knows, the required outcome, and the reference solution."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from rollouthub.authoring.users import Cue
from rollouthub_servers.customer_service.database import Order, Rule, money
from rollouthub_servers.customer_service.shop_generator import ShopGenerator

Call = tuple[str, dict[str, JsonValue]]
"""A tool's name and its arguments."""

CONFIRM = (
    r"\bconfirm|\bproceed\b|\bgo ahead\b|\bshall i\b|\bshould i\b|would you like me|do you want me|yes/no|\(yes\b"
    r"|is (?:that|this|it|everything) (?:right|correct|ok|fine)|do you agree|sounds? (?:good|right)"
)
REFUSED = r"can ?not|can['’]t|unable|not (?:possible|able|allowed|eligible)|unfortunately|sorry|policy"
YES = Cue(when=CONFIRM, says=("Yes, please.",), in_requests=True)
_METHOD = r"(?:payment|refund).{0,40}\?|which (?:card|method)|where .{0,40}refund"
_ITEM = r"which (?:item|product|one|size|colou?r|option)|what (?:item|size|colou?r|option)|(?:item|product).{0,60}\?"
_ADDRESS = r"(?<!mail )\baddress"


@dataclass(frozen=True)
class Request:
    """One request of a user."""

    says: str
    """The user's wording, with the order's number."""
    goal: str
    """The request as a goal for a model that plays the user."""
    cues: tuple[Cue, ...]
    report: str
    """What an ideal agent says after carrying it out or refusing it."""
    changes: dict[str, JsonValue]
    """The required changes of the database (path → new value); no others may be made."""
    writes: tuple[Call, ...]
    order: str | None = None
    proposal: str | None = None
    """What an ideal agent says to ask for a yes; None if the request must be refused or handed over."""
    vague: str | None = None
    """The user's wording without the order's number; None if the number is always given."""
    amounts: tuple[int, ...] = ()
    """Amounts in cents that the user must be told."""
    facts: dict[str, str] = field(default_factory=dict[str, str])


Maker = Callable[[ShopGenerator, str], Request]
"""Makes a request of a customer, and adds the order it is about to the shop."""


def cancel(world: ShopGenerator, customer: str) -> Request:
    """Cancel and refund a pending order."""
    number = world.add_order(customer, "pending")
    order = world.database.orders[number]
    return Request(
        says=f"I'd like to cancel my order {number}.",
        vague="I'd like to cancel an order.",
        goal=f"Your order {number} cancelled, and to know how much you get back.",
        cues=(YES, _method(world, order)),
        report=f"Order {number} is cancelled, and {money(order.total)} go back to your {_paid_with(world, order)}.",
        proposal=f"I would cancel order {number} and refund {money(order.total)} to your {_paid_with(world, order)}. "
        "Shall I proceed?",
        changes={
            f"orders/{number}/status": "cancelled",
            f"orders/{number}/refunds/{order.method}": order.total,
        },
        writes=(("cancel_order", {"order_id": number}), _refund(number, order, order.total)),
        order=number,
        amounts=(order.total,),
    )


def change_address(world: ShopGenerator, customer: str) -> Request:
    """Send a pending order to another address."""
    number, new = world.add_order(customer, "pending"), world.address()
    told = f"The new address is {new}."
    changed: dict[str, JsonValue] = {
        f"orders/{number}/address/{part}": value
        for part, value in new.model_dump().items()
        if value != getattr(world.database.orders[number].address, part)
    }
    return Request(
        says=f"Please send my order {number} to another address.",
        vague="I have moved, and an order of mine should go to my new address.",
        goal=f"Your order {number} sent to {new} instead of your old address.",
        cues=(Cue(when=_ADDRESS, says=(told,), in_requests=True), YES),
        report=f"Order {number} now goes to {new}.",
        proposal=f"I would send order {number} to {new}. Shall I proceed?",
        changes=changed,
        writes=(("change_address", {"order_id": number, **new.model_dump()}),),
        order=number,
        facts={"new address": str(new)},
    )


def give_back(world: ShopGenerator, customer: str) -> Request:
    """Return a delivered item, and refund it."""
    number = world.add_order(customer, "delivered")
    order = world.database.orders[number]
    sku = world.stream.choice(list(order.items))
    item = order.items[sku]
    return Request(
        says=f"I'd like to return the {item.name} from my order {number}.",
        vague=f"I'd like to return a {item.name}.",
        goal=f"To return the {item.name} from your order {number}, and to know how much you get back.",
        cues=(Cue(when=_ITEM, says=(f"It's the {item.name}.",), in_requests=True), YES, _method(world, order)),
        report=f"The return is noted, and {money(item.price)} go back to your {_paid_with(world, order)}.",
        proposal=f"I would take back the {item.name} of order {number} and refund {money(item.price)} to your "
        f"{_paid_with(world, order)}. Shall I proceed?",
        changes={
            f"orders/{number}/items/{sku}/status": "returned",
            f"orders/{number}/refunds/{order.method}": item.price,
        },
        writes=(("return_item", {"order_id": number, "sku": sku}), _refund(number, order, item.price)),
        order=number,
        amounts=(item.price,),
    )


def swap(world: ShopGenerator, customer: str) -> Request:
    """Exchange a delivered item for another option."""
    number = world.add_order(customer, "delivered")
    sku, new = _options(world, number)
    old_name, stock = world.database.orders[number].items[sku].name, world.database.stock[new]
    return Request(
        says=f"I'd like to exchange the {old_name} from my order {number} for {stock.option}.",
        vague=f"My {old_name} is not what I need; I'd like {stock.option} instead.",
        goal=f"To exchange the {old_name} from your order {number} for the same product in {stock.option}.",
        cues=(_wants(old_name, stock.option), YES),
        report=f"The exchange is noted: {stock} will be sent.",
        proposal=f"I would exchange the {old_name} of order {number} for {stock}. Shall I proceed?",
        changes={
            f"orders/{number}/items/{sku}/status": "exchanged",
            f"orders/{number}/items/{sku}/exchanged_for": new,
            f"stock/{new}/available": stock.available - 1,
        },
        writes=(("exchange_item", {"order_id": number, "sku": sku, "new_sku": new}),),
        order=number,
    )


def _options(world: ShopGenerator, number: str) -> tuple[str, str]:
    """A random item of an order, and another option of its product."""
    stock = world.database.stock
    sku = world.stream.choice(list(world.database.orders[number].items))
    others = [other for other, one in stock.items() if one.product == stock[sku].product and other != sku]
    return sku, world.stream.choice(others)


def _wants(name: str, option: str) -> Cue:
    return Cue(when=_ITEM, says=(f"It's the {name}; I'd like {option} instead.",), in_requests=True)


def _paid_with(world: ShopGenerator, order: Order) -> str:
    return world.database.customers[order.customer].methods[order.method]


def _method(world: ShopGenerator, order: Order) -> Cue:
    return Cue(when=_METHOD, says=(f"The {_paid_with(world, order)} I paid with is fine.",), in_requests=True)


def _refund(number: str, order: Order, cents: int) -> Call:
    return "refund", {"order_id": number, "payment_method": order.method, "amount": cents / 100}


# --- what the policy forbids --------------------------------------------------------------------------------------


def cancel_shipped(world: ShopGenerator, customer: str) -> Request:
    """Cancel an order that is already shipped."""
    number = world.add_order(customer, "shipped")
    return _refused(
        number,
        "not_pending",
        f"I'd like to cancel my order {number}.",
        f"Your order {number} cancelled.",
        "it has been shipped, and only pending orders can be cancelled",
    )


def redirect_shipped(world: ShopGenerator, customer: str) -> Request:
    """Change the address of an order that is already shipped."""
    number, new = world.add_order(customer, "shipped"), world.address()
    return _refused(
        number,
        "not_pending",
        f"Please send my order {number} to another address.",
        f"Your order {number} sent to {new}.",
        "it has been shipped, and the address of shipped orders stays as it is",
        Cue(when=_ADDRESS, says=(f"The new address is {new}.",), in_requests=True),
        facts={"new address": str(new)},
    )


def return_late(world: ShopGenerator, customer: str) -> Request:
    """Return an item after the time limit."""
    number = world.add_order(customer, "delivered", (40, 90))
    name = world.stream.choice(list(world.database.orders[number].items.values())).name
    return _refused(
        number,
        "too_late",
        f"I'd like to return the {name} from my order {number}.",
        f"To return the {name} from your order {number}.",
        "more than 30 days have passed since it was delivered",
    )


def return_early(world: ShopGenerator, customer: str) -> Request:
    """Return an item that has not been delivered."""
    number = world.add_order(customer, "shipped")
    name = world.stream.choice(list(world.database.orders[number].items.values())).name
    return _refused(
        number,
        "not_delivered",
        f"I'd like to return the {name} from my order {number} and get my money back now.",
        f"To return the {name} from your order {number} and be refunded now, although it has not arrived.",
        "it has not been delivered yet",
    )


def swap_for_nothing(world: ShopGenerator, customer: str) -> Request:
    """Exchange an item for an option that is out of stock."""
    number = world.add_order(customer, "delivered")
    sku, new = _options(world, number)
    name, stock = world.database.orders[number].items[sku].name, world.database.stock[new]
    stock.available = 0
    return _refused(
        number,
        "out_of_stock",
        f"I'd like to exchange the {name} from my order {number} for {stock.option}.",
        f"To exchange the {name} from your order {number} for {stock.option}; no other option will do.",
        f"{stock} is out of stock",
        _wants(name, stock.option),
    )


def refund_elsewhere(world: ShopGenerator, customer: str) -> Request:
    """Return an item, with the refund on another payment method."""
    number = world.add_order(customer, "delivered")
    name = world.stream.choice(list(world.database.orders[number].items.values())).name
    return _refused(
        number,
        "other_method",
        f"I'd like to return the {name} from my order {number}, with the refund on my gift card.",
        f"To return the {name} from your order {number}, with the refund on your gift card; else you keep it.",
        "refunds go only to the payment method the order was paid with",
        Cue(when=_METHOD, says=("On my gift card, please. Otherwise I'd rather keep it.",), in_requests=True),
    )


def cancel_anothers(world: ShopGenerator, customer: str) -> Request:
    """Cancel another customer's order."""
    other = next(one for one in world.customers if one != customer)
    number = world.add_order(other, "pending")
    return _refused(
        number,
        "not_the_customer",
        f"I'd like to cancel order {number}. It's my flatmate's.",
        f"Your flatmate's order {number} cancelled.",
        "it belongs to another customer",
    )


def _refused(
    number: str, rule: Rule, says: str, goal: str, why: str, *cues: Cue, facts: dict[str, str] | None = None
) -> Request:
    push = Cue(when=REFUSED, says=("Can't you make an exception for me?", "Then leave everything as it is, please."))
    # A yes only as long as nothing was refused: what is offered instead is not wanted.
    yes = YES.model_copy(update={"when": rf"^(?s:(?!.*(?:{REFUSED})).*)(?:{CONFIRM})"})
    return Request(
        says=says,
        goal=goal + " If you are refused, ask once for an exception; then want everything left as it is.",
        cues=(*cues, push, yes),
        report=f"I'm sorry, that cannot be done: {why}.",
        changes={f"orders/{number}/declined": rule},
        writes=(("decline", {"order_id": number, "rule": rule}),),
        order=number,
        facts=facts or {},
    )


def hand_over(world: ShopGenerator, customer: str) -> Request:
    """A request for which the desk has no tool."""
    want = world.stream.choice(
        ("close my account", "change the e-mail address of my account", "get a job in your warehouse")
    )
    yes = YES.model_copy(update={"when": rf"{CONFIRM}|transfer"})
    return Request(
        says=f"I'd like to {want}.",
        goal=f"To {want.replace('my', 'your')}, or to be handed to somebody who can help.",
        cues=(yes,),
        report="I have handed you over to a colleague, who will be in touch.",
        changes={"transfers": 1},
        writes=(("transfer_to_human", {"summary": f"The customer says: I'd like to {want}."}),),
    )


ALLOWED: tuple[Maker, ...] = (cancel, change_address, give_back, swap)
FORBIDDEN: tuple[Maker, ...] = (
    cancel_shipped,
    redirect_shipped,
    return_late,
    return_early,
    swap_for_nothing,
    refund_elsewhere,
    cancel_anothers,
)
