"""Requests, the declarations of APIs, error responses and quotas: the lowest layer of the broker."""
