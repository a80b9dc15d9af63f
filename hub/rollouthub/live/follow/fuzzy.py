"""Fuzzy search: a pattern matches a text that contains the pattern's letters in order."""

_LONGEST = 400


def closeness(query: str, text: str) -> int | None:
    """Score how well a query matches a text, ignoring case; higher is better. None if the text does not contain the
    query's letters in order.
    """
    text = text[:_LONGEST].lower()
    query = query.lower()
    whole = text.find(query)
    if whole >= 0:
        begins = whole == 0 or not text[whole - 1].isalnum()
        return 2 * _LONGEST - whole + (_LONGEST if begins else 0)
    first = at = text.find(query[0])
    for letter in query[1:]:
        if at < 0:
            break
        at = text.find(letter, at + 1)
    return None if at < 0 else _LONGEST - (at - first)
