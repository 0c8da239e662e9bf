"""The pages that the package makes, and pictures of them: ``python -m tests.interop.pages [TO] [--story out/story]``.

Without TO the pictures of the docs are made anew (``docs/pictures``); with it each page is photographed at both widths,
light and dark, and printed as PDF, to be looked at.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.interop.browser import Browser, find_chromium, open_browser

ROOT = Path(__file__).parents[2]
WIDTHS = (1280, 390)
TARGET = "4.0.1"
PAGES = {"story": "report.html", "log": "log.html", "traffic": "traffic.html", "audit": "audit.html"}
OVERFLOW = """(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > width + 1)
    .slice(0, 5).map(one => one.outerHTML.slice(0, 120));
})()"""


def make_pages(story: Path, *, flights: int | None = None) -> dict[str, Path]:
    """Return the pages of a story, which is played where it was not: the story's own, both reports and an audit."""
    if not (story / "report.html").exists():
        limit = [] if flights is None else ["--flights", str(flights)]
        _run([sys.executable, "examples/story", "--to", story, "--no-page", *limit], ROOT)
    kafkaframes = [sys.executable, "-m", "kafkaframes"]
    _run([*kafkaframes, "report", "kafka", "-o", PAGES["log"]], story)
    _run([*kafkaframes, "report", "traffic.pcapng", "-o", PAGES["traffic"]], story)
    audit = [*kafkaframes, "audit", "traffic.pcapng", "kafka", "--target", TARGET, "-o", PAGES["audit"]]
    _run(audit, story, status=4)  # it breaks the old clients
    return {name: story / file for name, file in PAGES.items()}


def _run(words: list[str | Path], folder: Path, *, status: int = 0) -> None:
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != status:
        raise RuntimeError(f"{words}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _look(browser: Browser, pages: dict[str, Path], to: Path) -> None:
    for name, page in pages.items():
        for width in WIDTHS:
            for theme in ("light", "dark"):
                browser.open(page.as_uri(), width=width, dark=theme == "dark")
                browser.picture(to / f"{name}-{width}-{theme}.png")
        browser.open(page.as_uri(), width=WIDTHS[0])
        browser.print(to / f"{name}.pdf")


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", type=Path, nargs="?", help="a folder for pictures of everything")
    parser.add_argument("--story", type=Path, default=ROOT / "out" / "story", help="what make run has left")
    options = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no Chromium on the PATH (Debian: chromium)")
    pages = make_pages(options.story.absolute())
    with open_browser(chromium) as browser:
        if options.to is not None:
            options.to.mkdir(parents=True, exist_ok=True)
            _look(browser, pages, options.to)
            return
        for name, page in pages.items():
            browser.open(page.as_uri(), width=WIDTHS[0])
            browser.picture(ROOT / "docs" / "pictures" / f"{name}.png", height=1000)


if __name__ == "__main__":
    main()
