"""Campaigns played against a world, with all that goes wrong in the field."""
