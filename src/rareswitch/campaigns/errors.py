"""What a campaign answers instead of doing what it was asked."""


class CampaignError(Exception):
    """The campaign refuses, and says why."""


class RefusedError(CampaignError, ValueError):
    """What was reported is not an episode of this campaign; it is in the register of refusals."""


class ConflictError(CampaignError):
    """Something else is recorded under that name already, and nothing is overwritten."""


class NotAllowedError(CampaignError):
    """The protocol does not allow it now."""


class MovedError(NotAllowedError):
    """Another version is in force than the one that the decision was about."""


class UnavailableError(CampaignError):
    """The store cannot be read or written; nothing was half-written, and it may be tried again.

    `full` says that there is no room.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class DamagedError(CampaignError):
    """What is stored cannot have been written by this library."""
