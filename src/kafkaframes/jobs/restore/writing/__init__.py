"""Write rows to the partitions of a log directory: workers write runs, and a commit assigns offsets."""

from kafkaframes.jobs.restore.writing.commit import RunCommitter, Target
from kafkaframes.jobs.restore.writing.routing import WriteSettings
from kafkaframes.jobs.restore.writing.runs import RunWriter, WrittenRun

__all__ = ["RunCommitter", "RunWriter", "Target", "WriteSettings", "WrittenRun"]
