"""The bytes that go to an environment's server with submissions whose episodes it does not host any more."""

from collections.abc import Sequence

from rollouthub.errors import VerifierError
from rollouthub.hosting.control_wire import MediaBody, media_bodies
from rollouthub.hosting.local.submitted_contents import contents_in
from rollouthub.score import Submission

MOST_BYTES = 256 * 2**20
"""Most bytes of media and artifacts in one request."""


def sent_media(submissions: Sequence[Submission]) -> tuple[dict[str, bytes], tuple[MediaBody, ...]]:
    """The bytes of submissions' media and artifacts by digest, as far as they are at hand, and the same as sent.

    Raises:
        VerifierError: there are too many for one request.
        TaskError: a picture's file cannot be read.
    """
    found: dict[str, bytes] = {}
    for each in contents_in(submissions):
        if (content := each.read()) is not None:
            found[each.digest] = content
        if sum(map(len, found.values())) > MOST_BYTES:
            raise VerifierError(
                f"what is judged has more than {MOST_BYTES >> 20} MiB of media and artifacts, which its environment's "
                "server cannot be sent at once; score it with --in-process, or groups with fewer --repeats",
                retryable=False,
            )
    return found, media_bodies(found)
