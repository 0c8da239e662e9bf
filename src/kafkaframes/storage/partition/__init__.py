"""A partition's log as a broker writes it, and the log directory that contains the logs."""

from kafkaframes.storage.files.disk import Disk, OnlineDisk
from kafkaframes.storage.files.local_disk import LocalDisk
from kafkaframes.storage.partition.appending import LogAppendInfo
from kafkaframes.storage.partition.fetch import FetchData
from kafkaframes.storage.partition.flushing import PendingFlush
from kafkaframes.storage.partition.loading import create_log, open_log
from kafkaframes.storage.partition.log import PartitionLog
from kafkaframes.storage.partition.manager import LogManager, ManagerSettings, open_log_directory
from kafkaframes.storage.partition.settings import LogSettings

__all__ = [
    "Disk",
    "FetchData",
    "LocalDisk",
    "LogAppendInfo",
    "LogManager",
    "LogSettings",
    "ManagerSettings",
    "OnlineDisk",
    "PartitionLog",
    "PendingFlush",
    "create_log",
    "open_log",
    "open_log_directory",
]
