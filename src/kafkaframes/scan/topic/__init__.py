"""Reading live topics: options, the division of a read into offset ranges, and the ranges as Arrow batches."""
