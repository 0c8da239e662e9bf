"""Disable fsync: no test of restores depends on it, and it takes seconds on a busy disk."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_flush():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
