"""The log on disk: what lies under a path, segments read and written, look-ups, transactions.

Start with ``kafkaframes.storage.log.discover.discover``.
"""
