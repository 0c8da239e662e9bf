"""Reading logs and backups: options, the division of a read into slices, and the slices as Arrow batches."""
