"""Reads of live topics: options, plans with offset ranges, and the ranges as Arrow batches."""
