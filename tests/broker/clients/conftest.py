"""Unmodified clients from PyPI. Warnings and leaked resources of these clients do not fail the tests."""

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka  # noqa: F401
    import confluent_kafka  # noqa: F401
    import kafka  # noqa: F401


def pytest_collection_modifyitems(items):
    """Let the clients emit warnings."""
    for item in items:
        if "broker/clients" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
