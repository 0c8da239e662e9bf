"""Run the jobs over logs, topics and traffic; each job has its own package.

A job turns settings into a plan of tasks, runs the tasks and combines their results.

The functions that run a job are in ``kafkaframes``. The classes of their results are exported here.
"""

from typing import TYPE_CHECKING

from kafkaframes._exports import import_on_use

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.measure import ProposalSizes, RecordAnalysis, TagHeaderSizes
    from kafkaframes.jobs.audit.audit import Audit
    from kafkaframes.jobs.checkpoint import Checkpoint
    from kafkaframes.jobs.compact.compaction import CompactionReport
    from kafkaframes.jobs.compact.key_search import KeySearchResult
    from kafkaframes.jobs.convert.job import JobReport
    from kafkaframes.jobs.dump.dump import LogDump
    from kafkaframes.jobs.dump.summary import PartitionSummary
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.job import JobResult
    from kafkaframes.jobs.mirror.settings import MirrorReport
    from kafkaframes.jobs.repair.job import RepairReport
    from kafkaframes.jobs.report.model import LogReport
    from kafkaframes.jobs.report.traffic import TrafficReport
    from kafkaframes.jobs.restore.partition import RestoreReport
    from kafkaframes.jobs.verify.verify import VerifyReport

__all__ = [
    "Audit",
    "Checkpoint",
    "CompactionReport",
    "JobReport",
    "JobResult",
    "KeySearchResult",
    "LogDump",
    "LogReport",
    "MirrorReport",
    "Outcome",
    "PartitionSummary",
    "ProposalSizes",
    "RecordAnalysis",
    "RepairReport",
    "RestoreReport",
    "TagHeaderSizes",
    "TrafficReport",
    "VerifyReport",
]

_NAMES_BY_MODULE = {
    "analyze.measure": ("ProposalSizes", "RecordAnalysis", "TagHeaderSizes"),
    "audit.audit": ("Audit",),
    "checkpoint": ("Checkpoint",),
    "compact.compaction": ("CompactionReport",),
    "compact.key_search": ("KeySearchResult",),
    "convert.job": ("JobReport",),
    "dump.dump": ("LogDump",),
    "dump.summary": ("PartitionSummary",),
    "export.run": ("Outcome",),
    "job": ("JobResult",),
    "mirror.settings": ("MirrorReport",),
    "repair.job": ("RepairReport",),
    "report.model": ("LogReport",),
    "report.traffic": ("TrafficReport",),
    "restore.partition": ("RestoreReport",),
    "verify.verify": ("VerifyReport",),
}

if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
    __getattr__, __dir__ = import_on_use(__name__, __all__, _NAMES_BY_MODULE)
