"""Pictures in the prompts of test servers: a mark in the text, and as many tokens as their bytes say."""

import base64
from typing import Any

MARK = "\x01"


def picture_tokens(raw: bytes) -> int:
    """How many tokens the server's model sees of a picture."""
    return 2 + len(raw) % 5


def shown_tokens(url: str) -> int:
    """How many tokens the server's model sees of a picture with this data URI."""
    return picture_tokens(base64.b64decode(url.partition(",")[2]))


def shown_text(content: str | list[dict[str, Any]] | None, shown: list[bytes] | None = None) -> str:
    """A message's content as the template gets it: a mark in each picture's place; adds the pictures to `shown`."""
    if not isinstance(content, list):
        return content or ""
    urls: list[str] = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    if shown is not None:
        shown += [base64.b64decode(url.partition(",")[2]) for url in urls]
    return "".join(f"[{MARK}]" if part["type"] == "image_url" else part["text"] for part in content)
