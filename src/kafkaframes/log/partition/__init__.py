"""A partition's log, written to as a broker writes it, and the log directory that holds such logs."""

from kafkaframes.log.partition.append_info import LogAppendInfo
from kafkaframes.log.partition.disk import Disk, LocalDisk, OnlineDisk
from kafkaframes.log.partition.fetch import FetchData
from kafkaframes.log.partition.loading import create_log, open_log
from kafkaframes.log.partition.log import PartitionLog
from kafkaframes.log.partition.manager import LogManager, ManagerSettings, open_log_directory
from kafkaframes.log.partition.settings import LogSettings

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
    "create_log",
    "open_log",
    "open_log_directory",
]
