"""The data sources of a session, and how Spark finds each one."""

import importlib
import pkgutil
from types import SimpleNamespace

import pytest

import kafkaframes.spark

pytest.importorskip("pyspark")


def test_each_source_has_a_unique_name_and_a_module_for_spark():
    sources = []
    session = SimpleNamespace(dataSource=SimpleNamespace(register=sources.append))
    session.sparkContext = SimpleNamespace(master="local[1]")
    kafkaframes.spark.register(session)
    assert sorted(source.name() for source in sources) == ["kafka-capture", "kafka-log", "kafka-topic"]
    modules = [module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_kafka_")]
    assert sorted(importlib.import_module(name).DefaultSource.name() for name in modules) == sorted(
        source.name() for source in sources
    )
