"""Reads of logs and backups: options, plans with slices, and the slices as Arrow batches."""
