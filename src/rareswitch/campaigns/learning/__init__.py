"""The learner of a campaign, apart from recording."""
