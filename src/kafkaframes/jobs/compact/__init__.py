"""Compact logs as Kafka's log cleaner does, in one process or in many tasks."""
