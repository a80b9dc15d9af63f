"""A world of several steps: what a client gets from one call it needs in the next, and one of the calls fails."""

from collections.abc import Iterable
from random import Random

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, ToolError, tool

PROMPT = (
    "Open an account for Ada and one for Bob. Pay 300 into Ada's. Send 500 from Ada to Bob; the bank will refuse, and "
    "name the most it lets you send: send that instead. Submit the receipt's number, then a colon, then Bob's balance."
)


class Ledger(Environment[EnvironmentConfig]):
    """A bank of two accounts."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="transfer", prompt=PROMPT), Secret())

    async def setup(self) -> None:
        self.balances: dict[str, int] = {}
        self.owners: dict[str, str] = {}
        self.receipt: str | None = None
        self._numbers = Random(self.seed)

    def _number(self, prefix: str) -> str:
        return f"{prefix}-{self._numbers.randrange(10**6, 10**7)}"

    @tool
    async def open_account(self, owner: str) -> str:
        """Open an account; its number."""
        number = self._number("acc")
        self.owners[owner], self.balances[number] = number, 0
        return number

    @tool
    async def deposit(self, account: str, amount: int) -> str:
        """Pay into an account; its new balance."""
        self._check(account)
        self.balances[account] += amount
        return str(self.balances[account])

    @tool
    async def transfer(self, source: str, target: str, amount: int) -> str:
        """Send money from one account to another; the number of the receipt."""
        self._check(source)
        self._check(target)
        if amount > self.balances[source]:
            raise ToolError(f"refused; the most you can send is {self.balances[source]}")
        self.balances[source] -= amount
        self.balances[target] += amount
        self.receipt = self._number("receipt")
        return self.receipt

    @tool
    async def balance(self, account: str) -> dict[str, int]:
        """What is in an account."""
        self._check(account)
        return {"balance": self.balances[account]}

    def _check(self, account: str) -> None:
        if account not in self.balances:
            raise ToolError(f"there is no account {account!r}")

    async def verify(self, submission: Submission) -> Score:
        """The money is where it belongs, and the answer says so."""
        ada, bob = (self.balances.get(self.owners.get(name, "")) for name in ("Ada", "Bob"))
        is_there = (ada, bob) == (0, 300)
        is_told = submission.answer == f"{self.receipt}:300"
        return Score(reward=(is_there + is_told) / 2, passed=is_there and is_told)
