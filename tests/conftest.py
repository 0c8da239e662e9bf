"""Profiles of hypothesis for the whole suite: `quick` by default, `deep` by KAFKAFRAMES_PROFILE=deep (make deep).

And one Spark session for the whole suite: it costs about eight seconds to the first result. Where the suite runs in
several processes (``make test``), all tests of that session go to one of them.
"""

import os
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

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

SMALL_SPARK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark():
    """A session of ours that knows nothing of ``register()``."""
    import kafkaframes

    session = kafkaframes.spark.session("kafkaframes tests", master="local[2]", memory="512m", config=SMALL_SPARK)
    yield session
    session.stop()


def pytest_collection_modifyitems(items):
    """Keep what shares the Spark session together: one process of ``--dist loadgroup`` runs all of it."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_terminal_summary(terminalreporter):
    """Print what each folder of tests took, slowest first: a suite grows slow a folder at a time."""
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
