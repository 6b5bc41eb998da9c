"""The rules of a campaign, each said once: asked before a row is written, and by every verifier.

Pure functions of the standard library. The writer builds a row and asks whether it breaks a rule;
`verify` and the verifier of one file ask the same functions about every row that was written.
"""
