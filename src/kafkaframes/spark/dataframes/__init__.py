"""The public functions for DataFrames and streams of a session."""
