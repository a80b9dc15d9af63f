"""The database operations behind the tools. They keep the database consistent; the agent must follow the policy."""

from reprlib import Repr
from typing import Any

from rollouthub import ToolError
from rollouthub_servers.customer_service.database import Address, Database, Item, Order, Rule

MOST_CENTS = 1_000_000
_quotes = Repr()
_quotes.maxstring = 200
_quoted = _quotes.repr
"""Text of the agent for use in a message, cut so that a very long word does not delay other episodes."""


def find_customer(database: Database, email: str | None, name: str | None, zip_code: str | None) -> str:
    """The id of the customer with this e-mail address, or this name and zip code.

    Raises:
        ToolError: there is none, or too little was given.
    """
    if email:
        wanted = email.strip().casefold()
        matches = [key for key, one in database.customers.items() if one.email.casefold() == wanted]
        missing = f"no customer has the e-mail address {_quoted(email)}"
    elif name and zip_code:
        wanted = " ".join(name.casefold().split())
        matches = [
            key
            for key, one in database.customers.items()
            if one.name.casefold() == wanted and one.address.zip == zip_code.strip()
        ]
        missing = f"no customer is named {_quoted(name)} with the zip code {_quoted(zip_code)}"
    else:
        raise ToolError("give an e-mail address, or a name and a zip code")
    if not matches:
        raise ToolError(missing)
    return matches[0]


def show_customer(database: Database, customer_id: str) -> dict[str, Any]:
    """The data of a customer that the desk may see.

    Raises:
        ToolError: there is no such customer.
    """
    customer = database.customers.get(customer_id)
    if customer is None:
        raise ToolError(f"there is no customer {_quoted(customer_id)}; find_customer gives the id")
    orders = {key: order.status for key, order in database.orders.items() if order.customer == customer_id}
    return {"customer_id": customer_id, **customer.model_dump(mode="json"), "orders": orders}


def show_order(database: Database, order_id: str) -> dict[str, Any]:
    """The data of an order, with amounts in dollars.

    Raises:
        ToolError: there is no such order.
    """
    order = _order(database, order_id)
    shown = order.model_dump(mode="json")
    shown["items"] = {
        sku: {**item.model_dump(mode="json"), "price": item.price / 100} for sku, item in order.items.items()
    }
    shown["refunds"] = {method: cents / 100 for method, cents in order.refunds.items()}
    shown["payment_method"] = shown.pop("method")
    return {"order_id": order_id, **shown, "total": order.total / 100}


def list_products(database: Database, product: str) -> list[dict[str, Any]]:
    """The options of the products whose name contains some words.

    Raises:
        ToolError: there are none.
    """
    wanted = product.strip().casefold()
    found = [
        {"sku": sku, "product": one.product, "option": one.option, "price": one.price / 100, "in_stock": one.available}
        for sku, one in database.stock.items()
        if wanted in one.product.casefold()
    ]
    if not found:
        known = ", ".join(dict.fromkeys(one.product for one in database.stock.values()))
        raise ToolError(f"no product is named {_quoted(product)}; there are: {known}")
    return found


def cancel(database: Database, order_id: str) -> None:
    """Cancel an order.

    Raises:
        ToolError: there is no such order, or it is already cancelled.
    """
    order = _order(database, order_id)
    if order.status == "cancelled":
        raise ToolError(f"order {order_id} is cancelled already")
    order.status = "cancelled"


def change_address(database: Database, order_id: str, address: Address) -> None:
    """Change an order's delivery address.

    Raises:
        ToolError: there is no such order, or the address is incomplete.
    """
    if not all((address.street, address.city, address.zip)):
        raise ToolError("an address needs a street, a city and a zip code")
    _order(database, order_id).address = address


def take_back(database: Database, order_id: str, sku: str) -> None:
    """Mark an item as returned.

    Raises:
        ToolError: there is no such item, or it was already returned or exchanged.
    """
    _item(database, order_id, sku).status = "returned"


def exchange(database: Database, order_id: str, sku: str, new_sku: str) -> None:
    """Mark an item as exchanged, and take the replacement from the stock.

    Raises:
        ToolError: there is no such item, it was already returned or exchanged, or the replacement is out of stock.
    """
    item, new = _item(database, order_id, sku), database.stock.get(new_sku)
    if new is None:
        raise ToolError(f"there is no product with the SKU {_quoted(new_sku)}; list_products shows them")
    if new.available < 1:
        raise ToolError(f"{new_sku} is out of stock")
    new.available -= 1
    item.status, item.exchanged_for = "exchanged", new_sku


def refund(database: Database, order_id: str, method: str, amount: float) -> str:
    """Record a refund; returns the description of the payment method.

    Raises:
        ToolError: there is no such order or method, or the amount is invalid.
    """
    order = _order(database, order_id)
    methods = database.customers[order.customer].methods
    if method not in methods:
        raise ToolError(f"the customer has no payment method {_quoted(method)}; there are: {', '.join(methods)}")
    cents = round(amount * 100)
    if not 0 < cents <= MOST_CENTS or abs(cents - amount * 100) > 1e-3:
        raise ToolError(f"{amount!r} is no amount in dollars and cents up to {MOST_CENTS // 100:,}")
    order.refunds[method] = order.refunds.get(method, 0) + cents
    return methods[method]


def decline(database: Database, order_id: str, rule: Rule) -> None:
    """Record that a request about an order was refused.

    Raises:
        ToolError: there is no such order.
    """
    _order(database, order_id).declined = rule


def _order(database: Database, order_id: str) -> Order:
    order = database.orders.get(order_id.strip().lstrip("#").upper())
    if order is None:
        raise ToolError(f"there is no order {_quoted(order_id)}")
    return order


def _item(database: Database, order_id: str, sku: str) -> Item:
    order = _order(database, order_id)
    item = order.items.get(sku)
    if item is None:
        raise ToolError(f"order {order_id} has no item {_quoted(sku)}; it has: {', '.join(order.items)}")
    if item.status != "ordered":
        raise ToolError(f"item {sku} of order {order_id} is {item.status} already")
    return item
