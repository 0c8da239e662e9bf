"""What these tests look at is the same whether the disk was flushed or not, and flushing a busy disk takes seconds."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_flush():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
