"""Python code blocks of the documentation, for the tests that run or check them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DOC_PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
_BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def python_blocks(page):
    """Return the Python blocks of a page, without the output that follows them."""
    return [code for code, _ in blocks_with_output(page)]


def blocks_with_output(page):
    """Return the Python blocks of a page, each with the output that follows it or None."""
    return [(match[1], match[2]) for match in _BLOCK.finditer(page.read_text())]
