"""A report of a log: measured in one pass, and written as one page that needs no network, or as JSON."""
