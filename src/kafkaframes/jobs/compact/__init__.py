"""Compact a log as Kafka's cleaner does, in one process or in many tasks."""
