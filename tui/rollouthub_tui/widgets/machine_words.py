"""Explains why the machines of a run cannot be shown."""

from rollouthub.live.steering.watched_run import WatchedRun


def why_none(run: WatchedRun) -> str:
    """Why the machines of a run cannot be shown."""
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
