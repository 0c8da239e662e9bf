"""The log on disk: directories, segments, indexes, snapshots, checkpoints.

Start with ``kafkaframes.log.directory.discover``; each file format has a module of its own.
"""
