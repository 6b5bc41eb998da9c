"""What an environment did wrong, and where."""

from typing import Protocol


class WorldError(ValueError):
    """An environment told something that cannot be learnt from; the message names the step.

    Episodes are counted from 1 and their steps from 0.
    Episodes finished before it are learnt from and kept.
    """

    def __init__(self, error: object, episode: int, step: int) -> None:
        super().__init__(str(error), episode, step)  # so that it can be pickled
        self.episode, self.step = episode, step

    def __str__(self) -> str:
        return f"{self.args[0]} (episode {self.episode}, step {self.step})"


class Underway(Protocol):
    """An episode that has taken so many steps."""

    @property
    def step(self) -> int: ...


class Place:
    """Where a rollout is: in which episode, and whether the environment has the word.

    `asking` tells an error of the environment's own from one about what it told.
    """

    def __init__(self, episode: int) -> None:
        self.episode, self.asking = episode, False
        self.playing: Underway | None = None

    @property
    def step(self) -> int:
        return 0 if self.playing is None else self.playing.step

    def __str__(self) -> str:
        return f"in episode {self.episode}, step {self.step}"
