"""The record of a campaign as files that need nothing of this package to be read and checked."""

from rareswitch.campaigns.proof.export.export import ExportSummary, export_campaign

__all__ = ["ExportSummary", "export_campaign"]
