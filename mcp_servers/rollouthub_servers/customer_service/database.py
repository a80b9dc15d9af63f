"""The shop's database (customers, stock and orders), and the difference between two of its states."""

from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

TODAY = date(2026, 3, 16)

OrderStatus = Literal["pending", "shipped", "delivered", "cancelled"]
ItemStatus = Literal["ordered", "returned", "exchanged"]
Rule = Literal["not_the_customer", "not_pending", "not_delivered", "too_late", "out_of_stock", "other_method"]
REMOVED = "(removed)"


class Row(BaseModel):
    """A mutable row with a fixed set of columns."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class Address(Row):
    """A delivery address."""

    street: str
    city: str
    zip: str

    def __str__(self) -> str:
        return f"{self.street}, {self.city} {self.zip}"


class Customer(Row):
    """A customer with an account."""

    name: str
    email: str
    address: Address
    methods: dict[str, str]
    """Payment method id → its description."""


class Stock(Row):
    """The stock of one option of a product."""

    product: str
    option: str
    price: int
    """Price in cents."""
    available: int
    """Pieces in stock."""

    def __str__(self) -> str:
        return f"{self.product}, {self.option}"


class Item(Row):
    """An item of an order."""

    name: str
    price: int
    """Price in cents."""
    status: ItemStatus = "ordered"
    exchanged_for: str | None = None
    """SKU of the replacement; None if the item was not exchanged."""


class Order(Row):
    """An order, with the changes made to it."""

    customer: str
    status: OrderStatus
    placed: date
    delivered: date | None = None
    items: dict[str, Item]
    """SKU → item."""
    address: Address
    method: str
    """Id of the payment method that paid the order."""
    refunds: dict[str, int] = {}
    """Payment method id → refunded cents."""
    declined: Rule | None = None
    """The policy rule under which a request about the order was refused; None if none was."""

    @property
    def total(self) -> int:
        """Total in cents."""
        return sum(item.price for item in self.items.values())


class Database(Row):
    """The whole state that the service desk works on."""

    customers: dict[str, Customer]
    stock: dict[str, Stock]
    """SKU → stock."""
    orders: dict[str, Order]
    transfers: int = 0
    """Number of conversations handed over to a person."""


def changes(before: Database, after: Database) -> dict[str, JsonValue]:
    """The difference between two states: path → new value."""
    old, new = _leaves(before), _leaves(after)
    changed = {path: value for path, value in new.items() if path not in old or old[path] != value}
    return changed | {path: REMOVED for path in old if path not in new}


def _leaves(database: Database) -> dict[str, JsonValue]:
    leaves: dict[str, JsonValue] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
                walk(f"{path}/{key}" if path else str(key), inner)  # pyright: ignore[reportUnknownArgumentType]
        else:
            leaves[path] = value

    walk("", database.model_dump(mode="json"))
    return leaves


def money(cents: int) -> str:
    """Format cents as dollars."""
    return f"${cents / 100:,.2f}"
