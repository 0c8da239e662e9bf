"""Write rows to the partitions of a log directory: workers write runs, and a commit assigns offsets."""

from kafkaframes.jobs.restore.writing.commit import Commit, Target
from kafkaframes.jobs.restore.writing.routing import WriteSettings
from kafkaframes.jobs.restore.writing.runs import Run, RunWriter

__all__ = ["Commit", "Run", "RunWriter", "Target", "WriteSettings"]
