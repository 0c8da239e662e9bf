"""Rows become the partitions of a log directory: many workers write runs of batches, a commit gives them offsets."""

from kafkaframes.jobs.restore.writing.commit import Commit, Target
from kafkaframes.jobs.restore.writing.routing import WriteSettings
from kafkaframes.jobs.restore.writing.runs import Run, RunWriter

__all__ = ["Commit", "Run", "RunWriter", "Target", "WriteSettings"]
