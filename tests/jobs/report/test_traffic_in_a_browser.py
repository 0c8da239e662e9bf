"""Pages in a real browser: nothing overflows at 390 or 1200 px, light and dark, and their scripts run."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkaframes.jobs.analyze.proposals import ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task
from kafkaframes.jobs.analyze.traffic import TrafficTask
from kafkaframes.jobs.report.proposal_page import build_proposal_page
from kafkaframes.jobs.report.traffic import make_traffic_report
from kafkaframes.jobs.report.traffic_page import build_traffic_page

DATA = Path(__file__).parents[2] / "data" / "captures"
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on the PATH (Debian: chromium)")

PROBE = '<script>window.problems=[];addEventListener("error",e=>problems.push(String(e.message)));</script>'
LOOK = """
<script>
addEventListener("load", () => {
  if (window.parent !== window) return;
  const source = document.documentElement.outerHTML, seen = {};
  const look = width => new Promise(done => {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:3000px;border:0`;
    frame.srcdoc = source;
    frame.onload = () => {
      const page = frame.contentDocument, root = page.documentElement;
      const background = () => frame.contentWindow.getComputedStyle(page.body).backgroundColor;
      const before = background();
      page.getElementById("theme").click();
      seen[width] = {problems: frame.contentWindow.problems, overflow: root.scrollWidth - root.clientWidth,
        cards: page.querySelectorAll("section").length, rows: page.querySelectorAll("tbody tr").length,
        clipped: [...page.querySelectorAll("td")].filter(cell => cell.getBoundingClientRect().right
          > cell.closest("section").getBoundingClientRect().right).length,
        before, after: background()};
      frame.remove(); done();
    };
    document.body.append(frame);
  });
  look(390).then(() => look(1200)).then(() => {
    document.body.innerHTML = `<pre id="seen"></pre>`;
    document.getElementById("seen").textContent = JSON.stringify(seen);
  });
});
</script>
"""


def look(page, tmp_path):
    """Return the measured layout of a page, by width."""
    path = tmp_path / "page.html"
    path.write_text(page.replace("<style>", PROBE + "<style>", 1).replace("</body>", LOOK + "</body>"))
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    ran = subprocess.run(
        [CHROMIUM, *arguments, path.as_uri()], capture_output=True, text=True, timeout=250, check=False
    )
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', ran.stdout, re.DOTALL)[1]))


def check(page_measures, *, cards, rows):
    assert set(page_measures) == {"390", "1200"}
    for width, one in page_measures.items():
        assert one["problems"] == [], width
        assert one["overflow"] <= 0, width
        assert one["cards"] == cards, width
        assert one["rows"] > rows, width
        assert one["before"] != one["after"], width


def test_the_page_fits_every_width_and_both_themes(tmp_path):
    report = make_traffic_report([str(DATA / "sasl-raw-tokens-broker39.pcap.gz")])
    check(look(build_traffic_page(report, version="0", generated_at=0), tmp_path), cards=7, rows=40)


def test_a_proposal_is_readable_at_every_width(tmp_path):
    path = str(DATA / "mangled-loss.pcapng.zst")
    settings = ProposalSettings("kip-636", by=("client",))
    outcome = run_comparison_task(ComparisonTask(TrafficTask((path,)), settings))
    page_measures = look(build_proposal_page(settings, outcome, paths=[path], version="0"), tmp_path)
    check(page_measures, cards=8, rows=200)
    assert [measure["clipped"] for measure in page_measures.values()] == [0, 0]
