"""A progress bar of the bytes read, which is only shown in notebooks."""

from __future__ import annotations

import sys
import types

import pytest

from kafkaframes.scan.slices import ScanProgress, show_progress


class FakeProgressBar:
    """The part of tqdm's interface that is used."""

    bars = ()

    def __init__(self, desc, **_):
        self.desc, self.n, self.total = desc, 0, None
        FakeProgressBar.bars.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def update(self, count):
        self.n += count


@pytest.fixture
def notebook(monkeypatch):
    """Let the code run as if in an IPython kernel with tqdm."""
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=FakeProgressBar))
    monkeypatch.setattr(FakeProgressBar, "bars", [])
    return shell


def run(running):
    for number in range(1, 4):
        yield number
        running.done_bytes = number * 10


def test_a_notebook_shows_a_bar(notebook):
    running = ScanProgress([], total_bytes=30)
    assert list(show_progress(run(running), running, "log x")) == [1, 2, 3]
    (bar,) = FakeProgressBar.bars
    assert (bar.desc, bar.n, bar.total) == ("log x", 30, 30)


def test_no_bar_elsewhere_or_without_tqdm(notebook, monkeypatch):
    running = ScanProgress([])
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert list(show_progress(run(running), running, "x")) == [1, 2, 3]
    del notebook.kernel
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=FakeProgressBar))
    assert list(show_progress(run(running), running, "x")) == [1, 2, 3]
    assert FakeProgressBar.bars == []
