"""A partition's log, written to as a broker writes it, and the log directory that holds such logs."""

from kafkaframes.files.disk import Disk, LocalDisk, OnlineDisk
from kafkaframes.partition.appending import LogAppendInfo
from kafkaframes.partition.fetch import FetchData
from kafkaframes.partition.flushing import Flush
from kafkaframes.partition.loading import create_log, open_log
from kafkaframes.partition.log import PartitionLog
from kafkaframes.partition.manager import LogManager, ManagerSettings, open_log_directory
from kafkaframes.partition.settings import LogSettings

__all__ = [
    "Disk",
    "FetchData",
    "Flush",
    "LocalDisk",
    "LogAppendInfo",
    "LogManager",
    "LogSettings",
    "ManagerSettings",
    "OnlineDisk",
    "PartitionLog",
    "create_log",
    "open_log",
    "open_log_directory",
]
