"""Groups, transactions and share groups: state machines without sockets and clocks of their own.

What a request may not do is a ``RefusedError`` with Kafka's code; where the log does not take what is to be written,
its error comes through (a ``KafkaframesError``). Nothing has changed after either, and functions do not say so each.
"""
