"""``import kafkaframes`` is cheap: a program imports only the parts that it uses."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_importing_the_package_loads_neither_numba_nor_pyarrow_nor_pyspark():
    code = "import sys, kafkaframes; print(*sorted({'numba', 'numpy', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    loaded_modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded_modules == []


@pytest.mark.parametrize(
    ("module", "some"),
    [
        ("kafkaframes", {"Producer", "errors", "describe_log", "__version__"}),
        ("kafkaframes.client", {"Producer", "NewTopic", "LATEST", "TopicPartition"}),
        ("kafkaframes.testing", {"Control", "ExternalBroker", "SchemaRegistry", "seed"}),
    ],
)
def test_public_names_are_available_after_the_import_and_listed_by_dir(module, some):
    code = f"import kafkaframes, {module} as m; shown = dir(m); [getattr(m, name) for name in m.__all__]; print(*shown)"
    shown_names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert some <= set(shown_names)
    assert not {"importlib", "import_module", "TYPE_CHECKING"} & set(shown_names)


def test_the_planner_process_of_a_stream_of_topics_imports_no_decoder_and_no_group_protocol():
    """Twenty streams have twenty of these processes.

    With decoders and group protocols, they took 260 MB and 9 CPU seconds more than Spark's own part.
    """
    pytest.importorskip("pyspark.sql.streaming.datasource")
    code = (
        "import sys, kafkaframes.spark.sources.topic_stream, kafkaframes.spark.options\n"
        "print(*(name for name in sys.modules if name.startswith('kafkaframes.')))"
    )
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kafkaframes.client.topic_lookups" in modules
    needless = ("client.admin", "client.producer", "client.consumer", "storage.log", "records.columns", "scan.log.foll")
    assert [name for name in modules if name.startswith(tuple(f"kafkaframes.{part}" for part in needless))] == []
    assert len(modules) < 115


def test_importing_the_clients_loads_no_share_groups_and_nothing_of_jobs_broker_or_spark():
    code = "import sys; from kafkaframes import Producer, Consumer, Admin; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kafkaframes.client.sync" in modules
    needless_packages = (
        "broker",
        "capture",
        "cli",
        "jobs",
        "scan.log",
        "scan.topic",
        "scan.values",
        "spark",
        "testing",
    )
    needless_modules = (
        "client.range_reader",
        "client.security.jks",
        "client.share_consumer",
        "client.share_machine",
        "client.sync_share",
        "protocol.spec.merge",
        "storage.log",
        "storage.partition",
    )
    needless = {f"kafkaframes.{name}" for name in (*needless_packages, *needless_modules)}
    assert needless & {".".join(name.split(".")[:depth]) for name in modules for depth in (2, 3, 4)} == set()
    libraries = {"numba", "llvmlite", "pandas", "polars", "duckdb", "pyspark", "fastavro", "pyarrow.dataset"}
    assert libraries & set(modules) == set()


def test_a_scan_without_decoding_loads_no_decoder_of_values_and_no_arrow_compute(require_compiler):
    """Without compiled libraries, kernels load numba, which loads more modules."""
    logs = str(Path(__file__).parents[1] / "examples" / "logs")
    code = (
        "import sys, kafkaframes\n"
        "scan = kafkaframes.scan_log(sys.argv[1]).select('offset', 'timestamp', 'key', 'value')\n"
        "assert scan.to_arrow().num_rows\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", code, logs]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "kafkaframes.scan.decoded" in modules
    needless_modules = ("kafkaframes.scan.values", "pyarrow.compute", "urllib.request", "http.client", "email")
    assert [name for name in modules if name.startswith(needless_modules)] == []
