"""Qualification: evidence that an installation is complete and does what it must, with a report."""
