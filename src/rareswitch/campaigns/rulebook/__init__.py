"""The rules of a campaign, shared by the writer and every verifier.

These are pure functions of the standard library. The writer checks each new row with them; `verify`
and the one-file verifier check every written row with the same functions.
"""
