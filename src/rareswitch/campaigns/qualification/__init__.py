"""Qualification: a report with evidence that an installation is complete and works."""
