"""Helpers for all of Spark's processes: errors of workers, functions that run on workers, and versions of Spark."""
