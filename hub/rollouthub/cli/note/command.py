"""`hub note`: tags, stars, comments and reviews of rollouts and turns, kept beside the run."""

from typing import Annotated

import typer

from rollouthub.cli.find_run import RUNS, RootOption, find_run
from rollouthub.cli.show.command import JsonOption, RunArgument
from rollouthub.errors import ConfigError

_WHAT = "A rollout's id or the start of it; or the id of a task played once."
RolloutArgument = Annotated[str | None, typer.Argument(metavar="ROLLOUT", help=f"{_WHAT} Instead of it: --where.")]
AttemptOption = Annotated[
    int | None, typer.Option(min=0, help="Note this attempt of ROLLOUT; by default the one whose score counts.")
]
TurnOption = Annotated[int | None, typer.Option(min=1, help="Note this turn of ROLLOUT, counted from 1.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="Add a tag.")]
UntagOption = Annotated[list[str] | None, typer.Option("--untag", metavar="TAG", help="Remove a tag.")]
StarOption = Annotated[bool | None, typer.Option("--star/--unstar", help="Set the star, or remove it.")]
CommentOption = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Add a comment.")]
ReviewedOption = Annotated[
    bool | None,
    typer.Option("--reviewed/--unreviewed", help="Say that you reviewed it, or that nobody has; see --needs-review."),
]
WhereOption = Annotated[
    str | None, typer.Option(metavar="FILTER", help="Note every rollout that matches: 'tool_calls > 40 and passed'.")
]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who writes the note; by default the system's user.")
]


def note(
    run: RunArgument,
    rollout: RolloutArgument = None,
    attempt: AttemptOption = None,
    turn: TurnOption = None,
    tag: TagOption = None,
    untag: UntagOption = None,
    star: StarOption = None,
    comment: CommentOption = None,
    reviewed: ReviewedOption = None,
    where: WhereOption = None,
    by: ByOption = None,
    root: RootOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """Tag, star, comment or review a rollout or one of its turns; without a note to add, print what is noted.

    Notes are kept in notes.jsonl in the run's directory, beside what was recorded. Filters find them (`tag ~ "hack"`,
    `starred`, `reviewed`, `comment ~ "odd"`), and lists, reports and exports show them.

    Exit codes: 0 noted or printed, 1 no rollout matches --where, 2 usage.
    """
    from rollouthub.cli.note.action import note_matching, note_one
    from rollouthub.store.notes import NoteChange

    if (rollout is None) == (where is None):
        raise ConfigError("name one rollout, or choose rollouts by --where: hub note RUN ROLLOUT --tag odd")
    change = NoteChange(
        rollout or "", attempt or 0, turn, tuple(tag or ()), tuple(untag or ()), star, comment, reviewed
    )
    is_asking = change == NoteChange(rollout or "", attempt or 0, turn)
    directory = find_run(run, root)
    if rollout is not None:
        note_one(directory, rollout, attempt, None if is_asking else change, turn, by, as_json=as_json)
        return
    if is_asking or turn is not None or attempt is not None:
        raise ConfigError("--where takes a note to add, such as --tag odd, and neither --turn nor --attempt")
    if not note_matching(directory, where or "", change, by, as_json=as_json):
        raise typer.Exit(1)
