"""What ends a campaign, with intervals that hold at every look."""
