"""Generates a shop: customers, products and orders."""

from datetime import date, timedelta
from random import Random

from rollouthub_servers.customer_service.database import (
    TODAY,
    Address,
    Customer,
    Database,
    Item,
    Order,
    OrderStatus,
    Stock,
)

_FIRST = "Amara Ben Chiara Daniel Elif Farid Grace Hugo Ines Jonas Kaya Liam Mei Noah Olga Pablo Ruth Samir Tess Yuki"
_LAST = "Adler Baker Costa Diaz Evans Fischer Gupta Haas Ito Jensen Kowalski Lopez Meyer Novak Okafor Park Rossi Silva"
_STREETS = "Maple Street,Oak Avenue,Mill Lane,Harbour Road,Station Street,Park Row,Church Lane,River Road,Hill Street"
_CITIES = "Springfield,Riverton,Lakeside,Fairview,Greenville,Ashford,Milton,Kingston,Newport,Brookfield"
_CARDS = ("Visa card", "Mastercard", "debit card")
_PRODUCTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Trail shoe": ("SHOE", ("size 39", "size 41", "size 43", "size 45")),
    "Rain jacket": ("JACKET", ("size S", "size M", "size L", "size XL")),
    "Water bottle": ("BOTTLE", ("blue", "green", "steel")),
    "Backpack": ("PACK", ("20 litres", "30 litres", "40 litres")),
    "Head torch": ("TORCH", ("black", "orange", "grey")),
    "Wool blanket": ("BLANKET", ("red", "grey", "beige", "navy")),
    "Camping chair": ("CHAIR", ("green", "black", "sand")),
}
_CUSTOMERS = 5


def _code(option: str) -> str:
    """A code that distinguishes an option from others of its product."""
    words = option.split()
    return (words[-1] if words[0] == "size" else words[0]).upper()


class ShopGenerator:
    """Generates a shop from one random stream."""

    def __init__(self, stream: Random) -> None:
        self.stream = stream
        stock: dict[str, Stock] = {}
        for product, (code, options) in _PRODUCTS.items():
            # Of one price, whatever the option.
            price = stream.randrange(900, 19_000, 10) + 9
            for option in options:
                stock[f"{code}-{_code(option)}"] = Stock(
                    product=product, option=option, price=price, available=stream.randrange(1, 30)
                )
        self.database = Database(customers={}, stock=stock, orders={})
        self._numbers = iter(stream.sample(range(1000, 10_000), 200))
        for name in self._names():
            self._add_customer(name)
        self.customers = stream.sample(list(self.database.customers), _CUSTOMERS)
        for customer in self.customers:
            for _ in range(stream.randrange(1, 3)):
                self.add_order(customer, stream.choice(("pending", "shipped", "delivered")))

    def _names(self) -> list[str]:
        firsts, lasts = self.stream.sample(_FIRST.split(), _CUSTOMERS), self.stream.sample(_LAST.split(), _CUSTOMERS)
        return [f"{first} {last}" for first, last in zip(firsts, lasts, strict=True)]

    def _add_customer(self, name: str) -> None:
        first, last = name.lower().split()
        self.database.customers[f"C{next(self._numbers)}"] = Customer(
            name=name,
            email=f"{first}.{last}{self.stream.randrange(10, 100)}@example.com",
            address=self.address(),
            methods={
                f"card-{next(self._numbers)}": self.stream.choice(_CARDS),
                f"gift-{next(self._numbers)}": "gift card",
            },
        )

    def address(self) -> Address:
        """A random address."""
        stream = self.stream
        street = f"{stream.randrange(1, 200)} {stream.choice(_STREETS.split(','))}"
        return Address(street=street, city=stream.choice(_CITIES.split(",")), zip=f"{stream.randrange(10_000, 99_999)}")

    def free_number(self) -> str:
        """An order number that no order has."""
        return f"W{next(self._numbers)}"

    def add_order(self, customer: str, status: OrderStatus, delivered_days: tuple[int, int] = (3, 25)) -> str:
        """Add an order of two items for a customer; returns its number."""
        stream, database = self.stream, self.database
        ago = stream.randrange(*delivered_days)
        delivered = TODAY - timedelta(days=ago) if status == "delivered" else None
        products = stream.sample(list(_PRODUCTS), 2)
        items: dict[str, Item] = {}
        for product in products:
            sku = stream.choice([sku for sku, one in database.stock.items() if one.product == product])
            items[sku] = Item(name=str(database.stock[sku]), price=database.stock[sku].price)
        number = self.free_number()
        owner = database.customers[customer]
        database.orders[number] = Order(
            customer=customer,
            status=status,
            placed=self._placed(delivered),
            delivered=delivered,
            items=items,
            address=owner.address.model_copy(),
            method=next(iter(owner.methods)),
        )
        return number

    def _placed(self, delivered: date | None) -> date:
        return (delivered or TODAY) - timedelta(days=self.stream.randrange(1, 6))

    def finished(self) -> Database:
        """The database, with customers and orders sorted so that their order does not reveal how it was generated."""
        database = self.database
        database.customers = dict(sorted(database.customers.items()))
        database.orders = dict(sorted(database.orders.items()))
        return database
