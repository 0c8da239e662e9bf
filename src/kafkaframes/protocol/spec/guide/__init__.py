"""The protocol guide: one HTML page made from the catalog, with every layout of every version in it."""

from kafkaframes.protocol.spec.guide.page import guide_page

__all__ = ["guide_page"]
