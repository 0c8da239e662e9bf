"""The settings of our sessions, without starting one."""

import os
import socket
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from kafkaframes.errors import MissingExtraError, OptionError
from kafkaframes.spark.runtime import _compat
from kafkaframes.spark.sessions import builder


def test_importing_the_package_provides_the_session_and_imports_no_pyspark():
    code = "import sys, kafkaframes as kf; kf.spark.session, kf.spark.register; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("door", [builder.session, lambda: builder.register(None)])
def test_without_pyspark_the_extra_is_named(door, monkeypatch):
    monkeypatch.setattr(_compat, "get_pyspark_version", lambda: None)
    with pytest.raises(MissingExtraError, match=r"kafkaframes\[spark\]"):
        door()


def test_the_environment_names_this_interpreter_and_loopback():
    environ = {}
    builder.prepare_environment(environ, java_home="/jdk", local=True)
    assert environ == {
        "JAVA_HOME": "/jdk",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_environment_variables_of_the_user_are_kept():
    environ = {"PYSPARK_PYTHON": "/mine", "SPARK_LOCAL_IP": "10.0.0.1", "JAVA_HOME": "/too-old"}
    builder.prepare_environment(environ, java_home="/jdk", local=True)
    assert environ["PYSPARK_PYTHON"] == "/mine"
    assert environ["SPARK_LOCAL_IP"] == "10.0.0.1"
    assert environ["JAVA_HOME"] == "/jdk"


def test_the_callers_settings_override_the_defaults():
    config = builder.create_default_config(
        "local[2]", memory="1g", overrides={"spark.driver.memory": "7g", "spark.driver.extraJavaOptions": "-Dx=1"}
    )
    assert config["spark.driver.memory"] == "7g"
    assert config["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Dx=1")


def test_a_local_session_disables_delayed_tcp_acknowledgements_by_default():
    name = "spark.python.unix.domain.socket.enabled"
    assert builder.create_default_config("local[2]", memory="1g", overrides={})[name] == "true"
    assert builder.create_default_config("local[2]", memory="1g", overrides={name: "false"})[name] == "false"
    assert name not in builder.create_default_config("spark://host:7077", memory="1g", overrides={})


def test_spark_shows_its_progress_in_a_shell_but_not_in_programs_and_notebooks(monkeypatch):
    name = "spark.ui.showConsoleProgress"
    assert builder.create_default_config("local[2]", memory="1g", overrides={})[name] == "false"
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert builder.create_default_config("local[2]", memory="1g", overrides={})[name] == "true"
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel="a kernel")
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert builder.create_default_config("local[2]", memory="1g", overrides={})[name] == "false"


def test_a_cluster_keeps_its_own_addresses_memory_and_logs():
    config = builder.create_default_config("spark://host:7077", memory="1g", overrides={})
    assert not [name for name in config if name.startswith(("spark.driver.", "spark.executor.", "spark.ui.enabled"))]


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]", "local-cluster[1,1,1024]", "yarn"])
def test_local_and_cluster_masters_are_accepted(master):
    builder.check_master(master)


@pytest.mark.parametrize("master", ["locla[2]", "local[x]", "spark://host", "spark:/host:1", "", "http://host:7077"])
def test_a_typo_in_a_master_is_reported_before_spark_starts(master):
    with pytest.raises(OptionError, match=r"(unknown|invalid) master"):
        builder.check_master(master)


def test_an_unreachable_master_is_reported_before_spark_starts():
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{free_socket.getsockname()[1]}"
        with pytest.raises(OptionError, match=r"no Spark master responds at spark://127\.0\.0\.1"):
            builder.check_master(url)
        free_socket.listen()
        builder.check_master(url)


@pytest.mark.spark
def test_workers_import_the_installed_package_and_compile_nothing(spark):
    import pyspark

    def origin(batches):
        import pyarrow as pa
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(origin, "file string").collect()
    assert row.file == pyspark.__file__
    assert "SPARK_HOME" not in os.environ
