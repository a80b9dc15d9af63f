"""Chooses the rollout to compare another one with."""

from rollouthub.live.follow.attempt_columns import AttemptColumns


def other_sample(columns: AttemptColumns, place: int) -> int | None:
    """The sample of the same group to compare with: the best one, or for the best one, the worst."""
    groups, rewards = columns.words["group_id"].codes, columns.numbers["reward"]
    group = groups[place]
    others = [
        other for other in range(len(columns)) if groups[other] == group and other != place and columns.effective[other]
    ]
    scored = [other for other in others if rewards[other] == rewards[other]]
    if not scored:
        return others[0] if others else None
    best = max(scored, key=lambda other: rewards[other])
    return best if not rewards[place] >= rewards[best] else min(scored, key=lambda other: rewards[other])
