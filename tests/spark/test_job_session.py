"""Spark for one job ends with the job: a signal ends both at any time, with Python's own exception."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.spark.sessions import builder
from kafkaframes.spark.sessions.job_session import start_job_session


class SessionContext:
    """A fake SparkContext with the attributes that job sessions use."""

    def __init__(self, jvm):
        self._gateway = SimpleNamespace(proc=jvm)


class Session:
    """A fake SparkSession with the attributes that job sessions use."""

    def __init__(self, jvm):
        self.sparkContext = SessionContext(jvm)
        self.is_stopped = False

    def stop(self):
        self.is_stopped = True


@pytest.fixture
def jvm():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request):
    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(request.param, handler)
    yield request.param
    assert signal.getsignal(request.param) is handler
    signal.signal(request.param, before)


def starting(monkeypatch, jvm, number=None):
    """Start Spark as PySpark does, with its own signal handler. The signal ``number`` is sent immediately after the
    start.
    """
    spark = Session(jvm)

    def cancel_all_jobs(number, frame):
        raise AssertionError("PySpark's handler was called")

    def start(app_name, **how):
        import pyspark.core.context

        pyspark.core.context.signal.signal(pyspark.core.context.signal.SIGINT, cancel_all_jobs)
        if number is not None:
            signal.raise_signal(number)
        return spark

    monkeypatch.setattr(builder, "session", start)
    return spark


def interrupt(number):
    signal.raise_signal(number)
    raise AssertionError("the job continued")


def test_a_signal_during_the_start_of_spark_ends_the_job(monkeypatch, jvm, number):
    spark = starting(monkeypatch, jvm, number)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        raise AssertionError("the job began")
    assert spark.is_stopped
    assert jvm.poll() is not None


def test_a_signal_during_the_job_ends_it(monkeypatch, jvm, number):
    spark = starting(monkeypatch, jvm)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        interrupt(number)
    assert spark.is_stopped
    assert jvm.poll() is not None


def test_signal_handlers_are_unchanged_under_spark_submit(monkeypatch, number):
    spark = starting(monkeypatch, None)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        interrupt(number)
    assert spark.is_stopped
    spark = starting(monkeypatch, None, number)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        raise AssertionError("the job began")
    assert spark.is_stopped


def test_without_a_signal_the_handlers_are_restored(monkeypatch, jvm, number):
    import pyspark.core.context

    spark = starting(monkeypatch, jvm)
    with start_job_session("test", "local[1]") as active_session:
        assert active_session is spark
    assert spark.is_stopped
    assert pyspark.core.context.signal is signal


def test_an_error_of_the_job_is_raised_unchanged(monkeypatch, jvm):
    starting(monkeypatch, jvm)
    with pytest.raises(KafkaframesError, match="ours"), start_job_session("test", "local[1]"):
        raise KafkaframesError("ours")
    assert jvm.poll() is None


@pytest.mark.parametrize("url", ["spark://kafka..example:7077", f"spark://{'k' * 64}:7077", "spark://host:99999", "x"])
def test_an_invalid_master_is_an_error_even_if_a_session_is_active(monkeypatch, jvm, url):
    spark = starting(monkeypatch, jvm)  # like an active session, which Spark returns for any master
    with pytest.raises(OptionError, match=r"(unknown|invalid) master"), start_job_session("test", url):
        raise AssertionError("the job ran")
    assert not spark.is_stopped
