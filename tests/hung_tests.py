"""A pytest plugin that ends a hanging test run.

pytest-timeout raises an exception in a test after its limit. This does not end a test that waits in compiled code, or
that waits again during its clean-up, for example for a process that does not stop. A CI run once hung for 80 minutes.
This plugin prints the stacks of all threads of such a process and ends it with status 1. pytest-xdist reports its test
as failed and starts another process for the remaining tests.

A pytest-xdist process may also hang outside of its tests. The main process therefore interrupts the run if no
process has reported the end of a test for ``IDLE_TIMEOUT_S``, and prints the tests that have started.
"""

import _thread
import faulthandler
import os
import threading
import time

import pytest

CLEAN_UP_TIMEOUT_S = 120  # additional time after the limit of pytest-timeout
IDLE_TIMEOUT_S = 1500  # longer than the longest limit of a test in ``make test`` plus its clean-up
_STDERR = pytest.StashKey[int]()


def pytest_configure(config):
    """Duplicate this process's standard error before pytest captures the output of tests."""
    config.stash[_STDERR] = os.dup(2)


def pytest_sessionstart(session):
    """Watch the run if this is the main process of pytest-xdist."""
    if session.config.pluginmanager.hasplugin("dsession"):
        session.config.pluginmanager.register(IdleRunWatch(session.config.stash[_STDERR]))


def pytest_unconfigure(config):
    """Close it."""
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Limit the time of a test including its fixtures."""
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


class IdleRunWatch:
    """A thread that interrupts pytest-xdist's main process if no test ends for ``IDLE_TIMEOUT_S``."""

    def __init__(self, stderr):
        self._stderr = stderr
        self._running_tests = set()
        self._last_end = time.monotonic()
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, name="idle test run", daemon=True).start()

    def pytest_runtest_logstart(self, nodeid):
        """Record the start of a test."""
        self._running_tests.add(nodeid)

    def pytest_runtest_logfinish(self, nodeid):
        """Record the end of a test."""
        self._running_tests.discard(nodeid)
        self._last_end = time.monotonic()

    def pytest_sessionfinish(self):
        """Stop to watch."""
        self._is_over.set()

    def _watch(self):
        while (remaining_s := self._last_end + IDLE_TIMEOUT_S - time.monotonic()) > 0:
            if self._is_over.wait(remaining_s):
                return
        lines = [f"no test has ended for {IDLE_TIMEOUT_S} s; tests that have started:", *sorted(self._running_tests)]
        os.write(self._stderr, "\n  ".join(lines).encode() + b"\n")
        _thread.interrupt_main()
