"""Processes next to Spark's driver: how they are started, found, asked and ended."""
