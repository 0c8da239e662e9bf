"""What tests of several commands need."""

import pytest


@pytest.fixture
def closed_catalogs(monkeypatch):
    """pyiceberg leaves connections to SQLite to the garbage collector, which warns."""
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    opened = []
    init = catalogs.SqlCatalog.__init__

    def noting(self, *given, **named):
        init(self, *given, **named)
        opened.append(self)

    monkeypatch.setattr(catalogs.SqlCatalog, "__init__", noting)
    yield
    for catalog in opened:
        catalog.close()
