"""Rows become the partitions of a log directory: many workers write runs of batches, a commit gives them offsets."""

from kafkaframes.log.writing.commit import Commit, Target
from kafkaframes.log.writing.runs import Run, RunWriter
from kafkaframes.log.writing.settings import WriteSettings

__all__ = ["Commit", "Run", "RunWriter", "Target", "WriteSettings"]
