"""Logs and backups: from options to slices to Arrow batches."""
