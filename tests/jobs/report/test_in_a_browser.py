"""The page in a real browser: it renders, nothing overlaps or overflows, its script works, it prints."""

import html
import json
import re
import shutil
import subprocess

import pytest

from kafkaframes.jobs.report.page import build_report_page

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on the PATH (Debian: chromium)")

# Inserted into the page: it measures each frame at a width, and replaces the document's text with the results.
PROBE = """
<script>
window.problems = [];
addEventListener("error", event => problems.push(String(event.message)));
</script>
"""
LOOK = """
<script>
addEventListener("load", () => {
  if (window.parent !== window) return;
  const source = document.documentElement.outerHTML.replaceAll("measure-me", "measured");
  const seen = {};
  const look = (name, width, dark) => new Promise(done => {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:4000px;border:0`;
    frame.srcdoc = source;
    frame.onload = () => {
      const page = frame.contentDocument, window_ = frame.contentWindow;
      if (dark) page.documentElement.dataset.theme = "dark";
      const box = node => node.getBoundingClientRect();
      const crossing = nodes => nodes.filter((one, place) => place && box(nodes[place - 1]).right > box(one).left
        && box(nodes[place - 1]).bottom > box(one).top && box(one).width && box(nodes[place - 1]).width).length;
      const style = window_.getComputedStyle(page.body);
      page.querySelector("#topics th:nth-child(3) button").click();
      const cells = [...page.querySelectorAll("#topics tbody tr td:nth-child(3)")];
      const piece = page.querySelector(".part");
      piece.dispatchEvent(new window_.PointerEvent("pointermove", { bubbles: true, clientX: 50, clientY: 50 }));
      seen[name] = {
        problems: window_.problems,
        overflow: page.documentElement.scrollWidth - width,
        crossing: [...page.querySelectorAll(".x, .scale")].map(axis => crossing([...axis.children])),
        outside: [...page.querySelectorAll(".part")]
          .filter(one => box(one).right > box(one.parentNode).right + 1).length,
        drawn: [...page.querySelectorAll(".plot rect:not(.pane)")].filter(one => box(one).height > 0).length,
        records: cells.map(one => one.textContent),
        tip: page.querySelector("#tip").hidden ? null : page.querySelector("#tip").textContent,
        titles: page.querySelectorAll("svg title").length,
        background: style.backgroundColor, ink: style.color,
      };
      page.getElementById("theme").click();
      seen[name].other = window_.getComputedStyle(page.body).backgroundColor;
      frame.remove();
      done();
    };
    document.body.append(frame);
  });
  look("wide", 1280).then(() => look("phone", 390)).then(() => look("dark", 1280, true)).then(() => {
    const out = document.createElement("pre");
    out.id = "seen";
    out.textContent = JSON.stringify(seen);
    document.body.append(out);
  });
});
</script>
"""


def chromium(*arguments):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout


@pytest.fixture
def page(cluster, report_of):
    return build_report_page(report_of(cluster))


@pytest.fixture
def page_measures(page, tmp_path):
    path = tmp_path / "looked-at.html"
    path.write_text(
        page.replace("<style>", PROBE + "<style>", 1).replace("</body>", LOOK + "</body>"), encoding="utf-8"
    )
    dumped_page = chromium("--virtual-time-budget=20000", "--dump-dom", path.as_uri())
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', dumped_page, re.DOTALL)[1]))


def test_the_page_is_right_at_every_width(page_measures):
    assert set(page_measures) == {"wide", "phone", "dark"}
    for name, one in page_measures.items():
        assert one["problems"] == [], name
        assert one["overflow"] <= 0, name
        assert not any(one["crossing"]), name
        assert one["outside"] == 0, name
        assert one["drawn"] > 30, name
        assert one["titles"] == 0  # the script moved their texts
        assert one["tip"], name
        counts = [int(text.replace(",", "").replace("–", "-1")) for text in one["records"]]
        assert counts == sorted(counts, reverse=True), name  # a click on "Records"
        assert one["background"] != one["other"], name  # a click on the toggle
    assert page_measures["dark"]["background"] == page_measures["wide"]["other"]
    assert page_measures["dark"]["ink"] != page_measures["wide"]["ink"]


def test_the_page_prints(page, tmp_path):
    path, printed_page = tmp_path / "page.html", tmp_path / "page.pdf"
    path.write_text(page, encoding="utf-8")
    chromium(f"--print-to-pdf={printed_page}", "--no-pdf-header-footer", path.as_uri())
    raw = printed_page.read_bytes()
    assert raw.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", raw)) <= 8
