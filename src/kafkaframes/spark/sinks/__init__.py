"""Sinks that Spark's tasks write to on their own: log directories, and topics at least once."""
