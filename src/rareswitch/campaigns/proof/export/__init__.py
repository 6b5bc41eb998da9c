"""An export: the record of a campaign as files, and the texts that follow from its chains.

`derived.py` and the modules that it imports need the standard library alone, and NumPy where bodies
of episodes are decoded: a verifier derives the same texts from an exported folder and compares.
"""
