"""Offline rewrites of logs: another record format, another codec, a compaction. A new directory, complete or absent."""

from kafkaframes.rewrite.job import JobReport, PartitionReport, convert
from kafkaframes.rewrite.settings import RewriteSettings

__all__ = ["JobReport", "PartitionReport", "RewriteSettings", "convert"]
