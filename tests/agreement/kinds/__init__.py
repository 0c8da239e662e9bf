"""One module a kind of truth."""
