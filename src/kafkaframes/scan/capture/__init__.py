"""Captured traffic: from options to slices."""
