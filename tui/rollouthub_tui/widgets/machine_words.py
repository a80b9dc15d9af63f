"""Why the machines of a run cannot be told of."""

from rollouthub_tui.watched_run import WatchedRun


def why_none(run: WatchedRun) -> str:
    """Why nothing can be told of what it plays on."""
    match run.feed.info.status:
        case "running":
            return (
                "the run's hub has not answered yet; machines are told of by the hub that plays a run, on this machine "
                "and to the user who started it"
            )
        case "dead":
            return "the run was killed, and nothing plays it; hub run --resume goes on with it"
        case status:
            return f"the run is {status}: nothing plays it any more, and machines are told of only while it plays"
