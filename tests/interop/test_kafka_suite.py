"""Each of Kafka 4.3.1's own cluster tests passes on the embedded broker, or its difference is documented."""

from __future__ import annotations

import shutil

import pytest
from tests.interop.fetching import fetch_by_maven
from tests.interop.kafka_suite import page, suite
from tests.interop.kafka_suite.differences import classify, find_difference

CLASS_TIMEOUT_SECONDS = 2400  # ShareConsumerTest took 1,344 s on 2 busy cores


@pytest.fixture(scope="module")
def libraries():
    if shutil.which("java") is None:
        pytest.skip("no java on the PATH")
    return fetch_by_maven(f"kafka-suite-{suite.KAFKA_VERSION}", *suite.COORDINATES)


@pytest.fixture(scope="module")
def classes(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    suite.compile_cluster(libraries, folder)
    return folder


@pytest.mark.timeout(CLASS_TIMEOUT_SECONDS + 60)
@pytest.mark.parametrize("name", sorted({result.suite for result in page.read_results()}))
def test_a_kafka_test_class_passes_or_its_differences_have_reasons(name, libraries, classes, tmp_path):
    results = suite.run_classes(
        [name], libraries=libraries, classes=classes, folder=tmp_path, timeout=CLASS_TIMEOUT_SECONDS
    )
    page.write_results(results)
    failures = [result for result in classify(results) if result.status == suite.FAILED]
    assert results
    assert [result for result in failures if find_difference(result) is None] == []


def test_every_class_of_the_suite_is_run(libraries):
    assert suite.list_classes(libraries) == sorted({result.suite for result in page.read_results()})
