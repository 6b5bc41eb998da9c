"""Evidence: experiments as data, runs on all cores, statistics, claims, figures, a report."""
