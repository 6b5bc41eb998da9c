"""Notes about the rewards of a training."""

from rareswitch.trajectories import Rewards, Trajectory

# Rewards that span less than this share of their range get a note.
NARROW = 0.2


def span_of(trajectory: Trajectory) -> tuple[float, float]:
    """Return the least and the largest reward of an episode."""
    return float(trajectory.rewards.min()), float(trajectory.rewards.max())


def widening_note(before: Rewards, after: Rewards, reward: float, episode: int) -> str:
    """Return the note about a widened range."""
    return (
        f"reward {reward:g} in episode {episode} is outside {before.low:g} to {before.high:g}: the "
        f"range is {after.low:g} to {after.high:g} from there on"
    )


def narrow_note(scale: Rewards, low: float, high: float) -> str | None:
    """Return a note if rewards from `low` to `high`, with 0, span less than a fifth of the range.

    >>> narrow_note(Rewards(-0.5, 1.0), -0.5, 0.0) is None
    True
    >>> narrow_note(Rewards(0.0, 1.0), 0.0, 0.0) is None  # the learner's health has a note for it
    True
    """
    low, high = min(low, 0.0), max(high, 0.0)
    share = (high - low) / (scale.high - scale.low)
    if low == high or share >= NARROW:
        return None
    return (
        f"the rewards, with 0, span {low:g} to {high:g}, {100 * share:.2g}% of the range "
        f"{scale.low:g} to {scale.high:g}: this slows learning down. If no others can occur, give "
        "the range: rewards=(low, high), or --rewards LOW HIGH"
    )
