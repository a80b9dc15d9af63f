"""The shop's database: customers, stock and orders, and what changed between two of its states."""

from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

TODAY = date(2026, 3, 16)

OrderStatus = Literal["pending", "shipped", "delivered", "cancelled"]
ItemStatus = Literal["ordered", "returned", "exchanged"]
Rule = Literal["not_the_customer", "not_pending", "not_delivered", "too_late", "out_of_stock", "other_method"]
REMOVED = "(removed)"


class Row(BaseModel):
    """A row that can be written to; strict about its columns."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class Address(Row):
    """Where parcels go."""

    street: str
    city: str
    zip: str

    def __str__(self) -> str:
        return f"{self.street}, {self.city} {self.zip}"


class Customer(Row):
    """Somebody with an account."""

    name: str
    email: str
    address: Address
    methods: dict[str, str]
    """Payment method → what it is."""


class Stock(Row):
    """One option of a product."""

    product: str
    option: str
    price: int
    """Cents."""
    available: int
    """Pieces."""

    def __str__(self) -> str:
        return f"{self.product}, {self.option}"


class Item(Row):
    """A line of an order."""

    name: str
    price: int
    """Cents."""
    status: ItemStatus = "ordered"
    exchanged_for: str | None = None
    """The SKU that is sent instead."""


class Order(Row):
    """An order, and what has been done about it."""

    customer: str
    status: OrderStatus
    placed: date
    delivered: date | None = None
    items: dict[str, Item]
    """By SKU."""
    address: Address
    method: str
    """The payment method it was paid with."""
    refunds: dict[str, int] = {}
    """Payment method → cents given back."""
    declined: Rule | None = None
    """Why a request about it was refused."""

    @property
    def total(self) -> int:
        """Cents."""
        return sum(item.price for item in self.items.values())


class Database(Row):
    """All the desk works on."""

    customers: dict[str, Customer]
    stock: dict[str, Stock]
    """By SKU."""
    orders: dict[str, Order]
    transfers: int = 0
    """Conversations handed to a person."""


def changes(before: Database, after: Database) -> dict[str, JsonValue]:
    """What differs between two states: path → the new value."""
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
    """Cents as a person writes them."""
    return f"${cents / 100:,.2f}"
