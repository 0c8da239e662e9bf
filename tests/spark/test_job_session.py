"""Spark for one job ends with it: a signal ends both, whenever it comes, and is told by Python's own exception."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.spark.sessions import builder
from kafkaframes.spark.sessions.job_session import start_job_session


class SessionContext:
    """What is asked of a SparkContext here."""

    def __init__(self, jvm):
        self._gateway = SimpleNamespace(proc=jvm)


class Session:
    """What is asked of a SparkSession here."""

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
    """Have Spark start as PySpark starts it, with its own handler; a signal comes right behind."""
    spark = Session(jvm)

    def cancel_all_jobs(number, frame):
        raise AssertionError("PySpark's handler was asked")

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
    raise AssertionError("the job went on")


def test_a_signal_while_spark_starts_ends_it_once_it_has_started(monkeypatch, jvm, number):
    spark = starting(monkeypatch, jvm, number)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        raise AssertionError("the job began")
    assert spark.is_stopped
    assert jvm.poll() is not None


def test_a_signal_in_the_job_ends_it(monkeypatch, jvm, number):
    spark = starting(monkeypatch, jvm)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        interrupt(number)
    assert spark.is_stopped
    assert jvm.poll() is not None


def test_a_signal_does_what_it_did_where_spark_submit_has_the_jvm(monkeypatch, number):
    spark = starting(monkeypatch, None)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        interrupt(number)
    assert spark.is_stopped
    spark = starting(monkeypatch, None, number)
    with pytest.raises(KeyboardInterrupt), start_job_session("test", "local[1]"):
        raise AssertionError("the job began")
    assert spark.is_stopped


def test_without_a_signal_the_handlers_are_back_and_pyspark_keeps_its_module(monkeypatch, jvm, number):
    import pyspark.core.context

    spark = starting(monkeypatch, jvm)
    with start_job_session("test", "local[1]") as active_session:
        assert active_session is spark
    assert spark.is_stopped
    assert pyspark.core.context.signal is signal


def test_an_error_of_ours_goes_through(monkeypatch, jvm):
    starting(monkeypatch, jvm)
    with pytest.raises(KafkaframesError, match="ours"), start_job_session("test", "local[1]"):
        raise KafkaframesError("ours")
    assert jvm.poll() is None


@pytest.mark.parametrize("url", ["spark://kafka..example:7077", f"spark://{'k' * 64}:7077", "spark://host:99999", "x"])
def test_an_invalid_master_is_an_error_even_if_a_session_is_active(monkeypatch, jvm, url):
    spark = starting(monkeypatch, jvm)  # as an active session, which Spark returns for any master
    with pytest.raises(OptionError, match=r"(unknown|invalid) master"), start_job_session("test", url):
        raise AssertionError("the job ran")
    assert not spark.is_stopped
