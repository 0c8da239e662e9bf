"""A pytest plugin that ends a test process whose test does not end although its time limit has passed.

pytest-timeout raises an exception in the test. This does not end a test that waits in compiled code, or that waits
again while it cleans up, such as for a process that nothing stops. CI once waited 80 minutes for such a test. This
plugin prints the stacks of all threads and exits with status 1. pytest-xdist reports the test as failed and starts
another process for the remaining tests.
"""

import faulthandler
import os

import pytest

CLEAN_UP_TIMEOUT_S = 120  # additional time after the limit of pytest-timeout
_STDERR = pytest.StashKey[int]()


def pytest_configure(config):
    """Store standard error of this process, before pytest captures the output of tests."""
    config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config):
    """Close it."""
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Limit the time of a test, with its fixtures."""
    _start_limit(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node):
    """Start the limit again for the fixtures of a failed test, because pytest's own hook has just stopped it."""
    if isinstance(node, pytest.Item):
        _start_limit(node)


def _start_limit(item):
    seconds = _time_limit_s(item)
    if seconds:
        stderr = item.config.stash[_STDERR]
        faulthandler.dump_traceback_later(seconds + CLEAN_UP_TIMEOUT_S, exit=True, file=stderr)


def _time_limit_s(item):
    """Return the limit of pytest-timeout for a test, in seconds; 0 if it has none."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    from_command = item.config.getoption("timeout", None)
    return float(item.config.getini("timeout") or 0 if from_command is None else from_command)
