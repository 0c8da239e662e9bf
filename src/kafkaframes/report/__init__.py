"""A report of a log: measured in one pass, told as one page that needs no network, or as JSON."""
