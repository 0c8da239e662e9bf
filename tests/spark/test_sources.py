"""The data sources that a session is given, and how Spark finds each by itself."""

import importlib
import pkgutil
from types import SimpleNamespace

import pytest

import kafkaframes.spark

pytest.importorskip("pyspark")


def test_each_has_a_name_of_its_own_and_a_module_by_which_spark_finds_it():
    sources = []
    session = SimpleNamespace(dataSource=SimpleNamespace(register=sources.append))
    session.sparkContext = SimpleNamespace(master="local[1]")
    kafkaframes.spark.register(session)
    assert sorted(one.name() for one in sources) == ["kafka-capture", "kafka-log", "kafka-topic"]
    modules = [one.name for one in pkgutil.iter_modules() if one.name.startswith("pyspark_kafka_")]
    assert sorted(importlib.import_module(name).DefaultSource.name() for name in modules) == sorted(
        one.name() for one in sources
    )
