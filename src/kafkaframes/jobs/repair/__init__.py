"""Repair a damaged log directory."""
