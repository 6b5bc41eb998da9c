"""One hypothesis profile for the whole suite; its place also makes `helpers` importable."""

from hypothesis import settings

settings.register_profile("suite", deadline=None, database=None, max_examples=40, print_blob=True)
settings.load_profile("suite")
