"""Spark sinks whose tasks write independently: log directories, and topics with at-least-once delivery."""
