"""Logs on disk: find log directories, read and write segments, look up offsets, and evaluate transactions.

Start with ``kafkaframes.storage.log.discover.discover``.
"""
