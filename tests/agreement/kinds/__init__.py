"""One module for each kind of reference data."""
