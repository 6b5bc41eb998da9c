"""The learner of a campaign, separate from recording."""
