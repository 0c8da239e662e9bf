"""The log on disk: directories, segments, indexes, snapshots, checkpoints.

Start with ``kafkaframes.storage.log.discover.discover``; each file format has a module of its own.
"""

from kafkaframes.records.append.public import validate_and_assign

__all__ = ["validate_and_assign"]
