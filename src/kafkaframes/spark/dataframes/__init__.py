"""The public functions for a session's DataFrames and streams."""
