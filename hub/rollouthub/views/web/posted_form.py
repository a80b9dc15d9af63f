"""Forms that pages send: bounded, and only those of this server's own pages."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from rollouthub.errors import UsageError
from rollouthub.http.asgi import TooLarge, read_body
from rollouthub.http.page_guard import PageGuard

_MOST_BYTES, _MOST_FIELDS = 128 * 1024, 8


class ForeignFormError(UsageError):
    """A form that no page of this server made."""


async def read_form(request: Request, guard: PageGuard) -> dict[str, str]:
    """The fields of a form, without its key.

    Raises:
        ForeignFormError: it has not the key of these pages' forms.
        UsageError: it is too large.
    """
    try:
        body = await read_body(request.scope, request.receive, _MOST_BYTES)
        form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except TooLarge:
        raise UsageError(f"a form has at most {_MOST_BYTES:,} bytes") from None
    except ValueError:
        raise UsageError(f"a form has at most {_MOST_FIELDS} fields") from None
    if not guard.is_form_key(form.pop("key", "")):
        raise ForeignFormError("go back, reload the page, and try again")
    return form
