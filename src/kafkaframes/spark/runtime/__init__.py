"""Helpers for all processes of Spark: errors of workers, functions that run on workers, and versions of Spark."""
