"""What a broker does with a partition's directory when it starts: planned, worked out, and written if asked."""
