"""Proof of a store or an export, and backups."""
