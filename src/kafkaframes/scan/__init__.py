"""What to read of a log, a topic or a capture, planned once; and the slices as Arrow batches."""
