"""Write rows to the partitions of a log directory: workers write files of batches, and a commit assigns offsets."""

from kafkaframes.jobs.restore.writing.commit import RunCommitter, TargetState
from kafkaframes.jobs.restore.writing.routing import WriteSettings
from kafkaframes.jobs.restore.writing.runs import RunWriter, WrittenRun

__all__ = ["RunCommitter", "RunWriter", "TargetState", "WriteSettings", "WrittenRun"]
