"""Kafka 4.3.1's own cluster tests on the embedded broker: each test passes, or its difference is documented."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.interop.kafka_suite import page, suite
from tests.interop.kafka_suite.differences import classify, difference_of

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kafkaframes" / f"kafka-suite-{suite.KAFKA}"
CLASS_TIMEOUT_SECONDS = 2400  # ShareConsumerTest took 1,344 s on 2 busy cores


@pytest.fixture(scope="module")
def libraries():
    if shutil.which("java") is None:
        pytest.skip("no java on the PATH")
    try:
        return suite.fetch_libraries(CACHE)
    except suite.SuiteUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def classes(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    suite.compile_cluster(libraries, folder)
    return folder


@pytest.mark.timeout(CLASS_TIMEOUT_SECONDS + 60)
@pytest.mark.parametrize("name", sorted({result.suite for result in page.read_results()}))
def test_a_class_of_kafka_passes_or_its_differences_have_reasons(name, libraries, classes, tmp_path):
    results = suite.run_classes(
        [name], libraries=libraries, classes=classes, folder=tmp_path, timeout=CLASS_TIMEOUT_SECONDS
    )
    page.write_results(results)
    failed = [result for result in classify(results) if result.status == suite.FAILED]
    assert results
    assert [result for result in failed if difference_of(result) is None] == []


def test_every_class_of_the_suite_is_run(libraries):
    assert suite.list_classes(libraries) == sorted({result.suite for result in page.read_results()})
