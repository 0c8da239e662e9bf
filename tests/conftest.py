"""Hypothesis profiles for the whole suite: `quick` by default, `deep` with KAFKAFRAMES_PROFILE=deep (make deep).

The suite has one Spark session, whose first result takes about eight seconds. If the suite runs in several
processes (``make test``), one of them runs all tests of that session.
"""

import gc
import os
import signal
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

from kafkaframes.kernels import demand

pytest_plugins = ["tests.hung_tests"]

settings.register_profile(
    "quick",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("deep", parent=settings.get_profile("quick"), max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("KAFKAFRAMES_PROFILE", "quick"))

# Collecting fifteen thousand tests creates permanent objects. Scanning them in every garbage collection took 5 of 20
# seconds of CPU time, and a tenth of later short tests (2026-11-22).
gc.disable()

# Background processes of a shell ignore Ctrl-C, and so do their children, so tests of interrupts would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONG_TESTS = {"examples", "cli", "spark", "testing"}  # folders with few tests that take seconds each
_SHORT_TESTS = {"append", "messages", "spec", "wire"}  # folders with thousands of tests that take milliseconds each

# A JVM that ends within seconds does not repay the CPU time of its second compiler and of a parallel collector.
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL_SPARK = {
    "spark.driver.extraJavaOptions": SMALL_JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark():
    """A Spark session for this package in which ``register()`` was not called."""
    import kafkaframes

    session = kafkaframes.spark.session("kafkaframes tests", master="local[2]", memory="512m", config=SMALL_SPARK)
    yield session
    session.stop()


@pytest.fixture
def small_java(monkeypatch):
    """Start all JVMs of this test's processes (launchers, drivers, executors and servers) with ``SMALL_JAVA``."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {SMALL_JAVA}".strip())


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Assign each test to a group for ``--dist loadgroup``, in the order in which the groups begin.

    The tests with the Spark session come first, as they take longest: their process waits for Spark most of the time,
    so ``make test`` starts one more process than there are cores. Other tests are grouped by file, and files with few
    long tests come early, so that all processes end at the same time. Distributing fifteen thousand single tests costs
    half a minute.
    """
    items.sort(key=_group_order)
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if "spark" in item.fixturenames else _file_of(item)))


def pytest_collection_finish(session):
    """Enable garbage collection again, but exclude the collected tests, which exist until the end."""
    gc.enable()
    gc.collect()
    gc.freeze()


def _file_of(item):
    return item.nodeid.split("::")[0]


def _group_order(item):
    """Return a key that sorts the tests of the Spark session first and those of folders with short tests last."""
    folder = item.path.parent.name
    return ("spark" not in item.fixturenames, folder not in _LONG_TESTS, folder in _SHORT_TESTS)


def pytest_terminal_summary(terminalreporter):
    """Print the time of each folder's tests, slowest first."""
    seconds, counts = defaultdict(float), defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = "/".join(report.nodeid.split("::")[0].split("/")[:-1])
                seconds[folder] += report.duration
                counts[folder] += report.when == "call"
    if sum(counts.values()) > 100:
        terminalreporter.section("time of each folder")
        for folder in sorted(seconds, key=seconds.get, reverse=True):
            terminalreporter.write_line(f"{seconds[folder]:7.1f} s  {counts[folder]:6} tests  {folder}")


@pytest.fixture
def require_compiler():
    """Skip the test unless kernels are compiled libraries; the C compiler or Python's headers may be missing."""
    try:
        demand.find_c_compiler()
    except demand.CompilerError as error:
        pytest.skip(f"kernels are not compiled libraries on this machine: {error}")
