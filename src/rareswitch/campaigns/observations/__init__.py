"""Raw observations and names of actions, in JSON and in CSV files."""

from rareswitch.campaigns.observations.observer import Choice, Observer, packed_features
from rareswitch.campaigns.observations.raw_csv import RowError, read_csv

__all__ = ["Choice", "Observer", "RowError", "packed_features", "read_csv"]
