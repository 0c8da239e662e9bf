"""Measure a log in one pass, and write the report as an HTML page that needs no network, or as JSON."""
