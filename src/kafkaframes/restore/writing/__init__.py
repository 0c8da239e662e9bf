"""Rows become the partitions of a log directory: many workers write runs of batches, a commit gives them offsets."""

from kafkaframes.restore.writing.commit import Commit, Target
from kafkaframes.restore.writing.runs import Run, RunWriter
from kafkaframes.restore.writing.settings import WriteSettings
from kafkaframes.restore.writing.stream_marks import StreamBatch

__all__ = ["Commit", "Run", "RunWriter", "StreamBatch", "Target", "WriteSettings"]
