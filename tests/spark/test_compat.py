"""The PySpark version, found without an import."""

from kafkaframes.spark.runtime import _compat


def test_pyspark_version_is_found_without_importing_it():
    assert _compat.get_pyspark_version() in _compat.SUPPORTED_JAVA_VERSIONS
