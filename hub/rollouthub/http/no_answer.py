"""Why a request of the HTTP client has no answer: each error's text says it."""


class NoAnswer(OSError):
    """A request got no answer that can be used."""


class NotConnected(NoAnswer):
    """No connection to the server could be opened."""

    def __init__(self, problem: str, *, is_refused_here: bool = False) -> None:
        super().__init__(problem)
        self.is_refused_here = is_refused_here
        """Whether this side refused the server: another try would do the same."""


class BrokenExchange(NoAnswer):
    """The connection ended before the response was complete, or the response is not valid HTTP."""


class AnswerTooLarge(NoAnswer):
    """The response's body is larger than allowed."""

    def __init__(self, most_bytes: int) -> None:
        mebibytes = most_bytes >> 20
        super().__init__(f"the answer is larger than {f'{mebibytes} MiB' if mebibytes else f'{most_bytes:,} bytes'}")


class AnswerTooSlow(NoAnswer):
    """The response was not complete in the request's time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:.3g} s")
