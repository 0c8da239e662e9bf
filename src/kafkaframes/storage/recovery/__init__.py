"""A partition's recovery at broker startup: planned, computed, and written if requested."""
