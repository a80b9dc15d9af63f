"""Answers that differ from task to task and always come out the same."""

import hashlib


def number(name: str, digits: int = 7) -> str:
    """A number of so many digits, without a zero at its beginning or its end."""
    value = int.from_bytes(hashlib.sha256(name.encode()).digest()[:12], "big")
    text = str(value)[:digits]
    return text[:-1] + str(1 + int(text[-1]) % 9)


def phrase(name: str) -> str:
    """A few words with a number, as nobody writes them by chance."""
    words = ("amber", "cobalt", "fennel", "garnet", "harbour", "juniper", "lantern", "marble", "onyx", "pewter")
    value = int(number(name, 6))
    return f"{words[value % 10]}-{words[value // 10 % 10]}-{number(name, 5)}"


def asked(name: str) -> str:
    """A question that does not tell its answer."""
    return f"What does the ledger of the year {1000 + int(number(name, 4)) % 900} say of entry {name!r}?"
