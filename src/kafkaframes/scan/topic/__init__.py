"""Live topics: from options to slices to Arrow batches."""
