"""Offline rewrites of logs: another record format, another codec, a compaction. A new directory, complete or absent."""

from kafkaframes.jobs.convert.job import JobReport, PartitionReport, convert
from kafkaframes.jobs.settings import RewriteSettings

__all__ = ["JobReport", "PartitionReport", "RewriteSettings", "convert"]
