"""`customer_service`: a service desk with a policy, a user who talks, and a verifier over the final database."""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rollouthub import Environment, EnvironmentConfig, Limits, Message, Public, Score, Secret, Submission, Task, tool
from rollouthub.authoring.users import ModelUser, ScriptedUser, SimulatedUser
from rollouthub_servers.customer_service import shop_tools
from rollouthub_servers.customer_service.case import CaseSecret, Kind, make_case
from rollouthub_servers.customer_service.database import Address, Database, Rule, changes, money
from rollouthub_servers.customer_service.stated_amount import told_share

__all__ = ["CustomerService", "CustomerServiceConfig"]

_YES = re.compile(r"\b(?:yes|yeah|yep|sure|okay|ok|please do|go ahead|correct|agreed)\b", re.IGNORECASE)


class CustomerServiceConfig(EnvironmentConfig):
    """Number and kind of cases, and who plays the user."""

    size: int = Field(default=500, ge=1)
    """Number of tasks in each split; they are generated lazily, and a larger size begins with the same tasks."""
    user: Literal["scripted", "model"] = "scripted"
    """`scripted` is a deterministic script; `model` calls the model of the role `user`."""
    kind: Literal["any"] | Kind = "any"
    """`simple` has one request, `several` two or three, `forbidden` one against the policy, `mistaken` a user who
    first gives a wrong detail, `transfer` a request without a tool.
    """
    most_replies: int = Field(default=40, ge=1)
    """Number of replies after which the user leaves."""


class CustomerService(Environment[CustomerServiceConfig]):
    """A service desk: look up, change, refund or refuse, as a policy says and a user asks."""

    scores_states = True

    submits = False

    def __init__(self, task: Task[Public, Secret], config: CustomerServiceConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        assert isinstance(task.secret, CaseSecret)
        self.secret = task.secret
        # A world of its own; a quarter of the time of a deep copy.
        self.database = Database.model_validate(task.secret.database.model_dump())
        self.said: list[str] = []
        """The agent's messages to the user."""
        self.writes = self.writes_without_a_yes = 0
        self._has_yes = False
        self._user: SimulatedUser | None = None

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """`test` and `train`, of the same kind, from separate random streams."""
        return ("test", "train")

    @classmethod
    def tasks(cls, config: CustomerServiceConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        """Generate the cases lazily, each from its own random stream."""
        only = None if config.kind == "any" else config.kind
        for index in range(config.size):
            yield make_case(f"{split}/{index}", Random(f"{seed}/{split}/{index}"), only)

    @classmethod
    def limits(cls, config: CustomerServiceConfig) -> Limits:
        """A turn limit that suffices for three requests."""
        return Limits(max_turns=60)

    @classmethod
    def roles(cls, config: CustomerServiceConfig) -> tuple[str, ...]:
        """`user` if a model plays the user."""
        return ("user",) if config.user == "model" else ()

    @property
    def user(self) -> SimulatedUser:
        """The simulated user."""
        if self._user is None:
            secret, most = self.secret, self.config.most_replies
            if self.config.user == "model":
                self._user = ModelUser(self.models["user"], secret.sheet, secret.opening, most_replies=most)
            else:
                self._user = ScriptedUser(secret.script.model_copy(update={"most_replies": most}))
        return self._user

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The user's reply; None when the conversation is over."""
        if self.user.is_done:
            return None
        answer = await self.user.reply(messages)
        self.said += [message.text for message in messages if message.role == "assistant"]
        if answer is not None:
            self._has_yes = any(_YES.search(message.text) for message in answer)
        return answer

    @tool
    async def find_customer(
        self, email: str | None = None, name: str | None = None, zip_code: str | None = None
    ) -> dict[str, Any]:
        """Find a customer by e-mail address, or by name and zip code.

        Args:
            email: The e-mail address of the account.
            name: First and last name; give the zip code, too.
            zip_code: The zip code of the account's address.
        """
        return shop_tools.show_customer(self.database, shop_tools.find_customer(self.database, email, name, zip_code))

    @tool
    async def get_customer(self, customer_id: str) -> dict[str, Any]:
        """A customer's address, payment methods and orders."""
        return shop_tools.show_customer(self.database, customer_id)

    @tool
    async def get_order(self, order_id: str) -> dict[str, Any]:
        """An order: whose it is, status, items by SKU, address, payment method and total in dollars."""
        return shop_tools.show_order(self.database, order_id)

    @tool
    async def list_products(self, product: str = "") -> list[dict[str, Any]]:
        """Products with their options, prices in dollars, and pieces in stock.

        Args:
            product: Part of the product's name; empty lists all.
        """
        return shop_tools.list_products(self.database, product)

    @tool
    async def cancel_order(self, order_id: str) -> str:
        """Cancel a whole order. The money is refunded apart from this."""
        shop_tools.cancel(self.database, order_id)
        return self._written(f"Order {order_id} is cancelled.")

    @tool
    async def change_address(self, order_id: str, street: str, city: str, zip: str) -> str:
        """Change the delivery address of an order.

        Args:
            street: Street and number.
        """
        address = Address(street=street.strip(), city=city.strip(), zip=zip.strip())
        shop_tools.change_address(self.database, order_id, address)
        return self._written(f"Order {order_id} goes to {address}.")

    @tool
    async def return_item(self, order_id: str, sku: str) -> str:
        """Take an item of an order back. The money is refunded apart from this."""
        shop_tools.take_back(self.database, order_id, sku)
        return self._written(f"Item {sku} of order {order_id} is returned.")

    @tool
    async def exchange_item(self, order_id: str, sku: str, new_sku: str) -> str:
        """Exchange an item of an order for another option of the same product."""
        shop_tools.exchange(self.database, order_id, sku, new_sku)
        return self._written(f"Item {sku} of order {order_id} is exchanged for {new_sku}.")

    @tool
    async def refund(self, order_id: str, payment_method: str, amount: float) -> str:
        """Give money back for an order.

        Args:
            payment_method: The id of one of the customer's payment methods.
            amount: Dollars, such as 12.5.
        """
        method = shop_tools.refund(self.database, order_id, payment_method, amount)
        return self._written(f"{money(round(amount * 100))} of order {order_id} go back to the {method}.")

    @tool
    async def decline(self, order_id: str, rule: Rule) -> str:
        """Record that a request about an order was refused because of a rule of the policy."""
        shop_tools.decline(self.database, order_id, rule)
        return f"Noted for order {order_id}: {rule}."

    @tool
    async def transfer_to_human(self, summary: str) -> str:
        """Hand the customer over to a person.

        Args:
            summary: What the customer wants.
        """
        self.database.transfers += 1
        return "A colleague takes over when you have told the customer."

    def _written(self, result: str) -> str:
        self.writes += 1
        self.writes_without_a_yes += not self._has_yes
        return result

    def snapshot(self) -> JsonValue:
        """The database, the user's state, and the conversation."""
        return {
            "database": self.database.model_dump(mode="json"),
            "user": self.user.snapshot(),
            "said": list[JsonValue](self.said),
            "writes": self.writes,
            "writes_without_a_yes": self.writes_without_a_yes,
            "has_yes": self._has_yes,
        }

    async def restore(self, state: JsonValue) -> None:
        """Restore a snapshot."""
        saved = _SavedService.model_validate(state)
        self.database, self.said = saved.database, list(saved.said)
        self.writes, self.writes_without_a_yes = saved.writes, saved.writes_without_a_yes
        self._has_yes = saved.has_yes
        self.user.restore(saved.user)

    async def verify(self, submission: Submission) -> Score:
        """Compare the changes of the database with the expected ones, which must be the only changes.

        The agent must also have told the user the amounts that the policy requires.
        """
        expected, found = self.secret.changes, changes(self.secret.database, self.database)
        told = told_share(self.secret.amounts, self.said)
        right = expected == found
        passed = right and told == 1.0
        return Score(
            reward=float(passed),
            passed=passed,
            metrics={
                "database": float(right),
                "told": told,
                "writes": self.writes,
                "writes_without_a_yes": self.writes_without_a_yes,
                "heard": len(self.said),
            },
            feedback=None if passed else _complaint(expected, found, told),
            metadata={"kind": self.secret.kind},
        )


class _SavedService(BaseModel):
    model_config = ConfigDict(extra="forbid")

    database: Database
    user: JsonValue
    said: list[str]
    writes: int
    writes_without_a_yes: int
    has_yes: bool


def _complaint(expected: dict[str, JsonValue], found: dict[str, JsonValue], told: float) -> str:
    problems = [
        f"{path} should have become {value!r}" + (f", is {found[path]!r}" if path in found else "")
        for path, value in expected.items()
        if path not in found or found[path] != value
    ]
    problems += [f"{path} should not have become {value!r}" for path, value in found.items() if path not in expected]
    if told < 1.0:
        problems.append("the customer was not told the amount of the refund")
    return "; ".join(problems)
