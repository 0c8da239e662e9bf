"""axe-core finds no violations on the pages and the site, on desktop and phone, light and dark, and no page
overflows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.browser import find_chromium, open_browser
from tests.interop.pages import OVERFLOW_SCRIPT, PAGE_FILES, WIDTHS, make_pages
from tests.interop.test_other_clients import fetch_client

AXE_INSTALL_COMMAND = ["npm", "install", "--silent", "--no-audit", "--no-fund", "axe-core@4.10.3"]
AXE_SCRIPT = """axe.run({resultTypes: ["violations"]}).then(done => done.violations.map(one =>
  `${one.id}: ${one.nodes.slice(0, 3).map(node => node.target + " " + (node.any[0] || {}).message).join("; ")}`))"""
SITE_PAGES = (
    "index.html", "install/index.html", "start/test-a-client/index.html", "start/read-a-backup/index.html",
    "start/upgrade-a-cluster/index.html", "reading-logs/index.html", "reference/kafka-log/index.html",
    "reference/commands/index.html", "reference/python/index.html", "reference/client/Producer/index.html",
    "kips/kip-482/index.html", "about/changelog/index.html", "benchmarks/index.html",
)  # fmt: skip
PAGE_VARIANTS = [(width, dark) for width in WIDTHS for dark in (False, True)]


@pytest.fixture(scope="module")
def axe() -> str:
    folder = fetch_client("axe", "npm", lambda _: [AXE_INSTALL_COMMAND])
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser():
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("Chromium is not on the PATH (Debian: chromium)")
    with open_browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def pages(browser, tmp_path_factory) -> dict[str, Path]:
    return make_pages(tmp_path_factory.mktemp("pages") / "story", flights=40_000)


@pytest.fixture
def site(browser, built_site) -> Path:
    return built_site


def check(browser, axe: str, page: Path) -> None:
    for width, dark in PAGE_VARIANTS:
        browser.open(page.as_uri(), width=width, dark=dark)
        assert browser.evaluate(OVERFLOW_SCRIPT) == [], (width, dark)
        browser.evaluate(f"{axe};0")
        assert browser.evaluate(AXE_SCRIPT) == [], (width, dark)


@pytest.mark.parametrize("name", PAGE_FILES)
def test_pages_that_commands_make(browser, axe, pages, name):
    check(browser, axe, pages[name])


@pytest.mark.parametrize("name", SITE_PAGES)
def test_the_site(browser, axe, site, name):
    check(browser, axe, site / name)


def test_a_violation_is_detected(browser, axe, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html><html lang='en'><title>t</title><main style='width:3000px'><img src='a.png'></main>"
    )
    with pytest.raises(AssertionError):
        check(browser, axe, page)
    browser.evaluate(f"{axe};0")
    assert any("image-alt" in violation for violation in browser.evaluate(AXE_SCRIPT))
