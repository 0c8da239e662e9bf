"""These tests do not depend on whether the disk was flushed, and flushing a busy disk takes seconds."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_flush():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
