"""The tasks of Spark's jobs, counted for a progress bar; without a JVM."""

import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from kafkaframes.spark.runtime import task_progress
from kafkaframes.spark.runtime.task_progress import show_in_notebook, watch_tasks


class Tracker:
    """A fake status tracker of Spark with two stages. Stage 2 has ended before its information is requested."""

    def getActiveStageIds(self):  # noqa: N802
        return [1, 2]

    def getStageInfo(self, stage):  # noqa: N802
        return SimpleNamespace(numCompletedTasks=3, numTasks=8) if stage == 1 else None


def test_tasks_are_counted_while_the_block_runs_and_the_thread_ends_with_it(monkeypatch):
    monkeypatch.setattr(task_progress, "_POLL_INTERVAL_SECONDS", 0.001)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
    counts, has_seen = [], threading.Event()

    def show(done_count, total):
        counts.append((done_count, total))
        has_seen.set()

    with watch_tasks(spark, show):
        assert has_seen.wait(100)
    assert set(counts) == {(3, 8)}
    assert "kafkaframes progress" not in {thread.name for thread in threading.enumerate()}


def test_a_session_without_counts_shows_nothing():
    with watch_tasks(SimpleNamespace(), lambda *_: 1 / 0):
        pass


def test_a_stopped_jvm_ends_the_counting_silently(monkeypatch):
    """After Ctrl-C the thread printed py4j's traceback before the command could print its message."""
    monkeypatch.setattr(task_progress, "_POLL_INTERVAL_SECONDS", 0.001)
    errors, has_asked = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", errors.append)

    def gone():
        has_asked.set()
        raise ConnectionRefusedError

    tracker = SimpleNamespace(getActiveStageIds=gone)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with watch_tasks(spark, lambda *_: 1 / 0):
        assert has_asked.wait(60)
    assert errors == []


class Output:
    """The output of a notebook cell: its current content, and whether it was ever filled."""

    def __init__(self):
        self.html = self.previous_html = ""
        self.has_bar = threading.Event()

    def update(self, value):
        self.previous_html, self.html = self.html, value._repr_html_()
        if self.html:
            self.has_bar.set()


def test_a_notebook_shows_a_bar_while_the_tasks_run_and_removes_it(monkeypatch):
    monkeypatch.setattr(task_progress, "_POLL_INTERVAL_SECONDS", 0.001)
    output, display, ipython = Output(), ModuleType("IPython.display"), ModuleType("IPython")
    display.display = lambda value, *, display_id: output
    ipython.get_ipython = lambda: SimpleNamespace(kernel="a kernel")
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
    with show_in_notebook(spark):
        assert output.has_bar.wait(100)
    assert output.html == ""
    assert output.previous_html == '<progress value="3" max="8" aria-label="Spark tasks"></progress> 3 of 8 tasks'


@pytest.mark.parametrize("shell", [None, SimpleNamespace()], ids=["no shell", "a shell in a terminal"])
def test_programs_and_terminals_show_no_bar_although_ipython_is_imported(monkeypatch, shell):
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with show_in_notebook(SimpleNamespace()):
        assert "kafkaframes progress" not in {thread.name for thread in threading.enumerate()}
