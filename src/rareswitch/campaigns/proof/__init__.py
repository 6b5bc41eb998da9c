"""Proof: of a store, of an export, and copies to keep."""
