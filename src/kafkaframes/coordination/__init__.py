"""Coordinators of groups, transactions and share groups: state machines without sockets or a clock of their own.

A request that is not allowed raises a ``RefusedError`` with Kafka's error code. If the log rejects an append, the
coordinator raises the log's error (a ``KafkaframesError``) to its caller. If a function raises either exception, no
state has changed. The docstrings of the functions do not repeat these rules.
"""
