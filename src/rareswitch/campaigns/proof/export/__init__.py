"""An export: the record of a campaign as files, and the texts derived from its chains.

`derived.py` and its imports need only the standard library, and NumPy to decode bodies of episodes.
A verifier derives the same texts from an exported folder and compares them.
"""
