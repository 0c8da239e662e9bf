"""Write ``protocol/messages/kafka.pyi`` from the catalog: the types of Kafka's messages for type checkers and editors.

hatchling runs this in every build, an editable one too, ``make setup`` in a checkout, and mypy when it starts, so that
the stub is current. It needs only the standard library, because a build has no other packages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

SOURCES: Final = Path(__file__).resolve().parents[1] / "src"
STUB_FILE: Final = SOURCES / "kafkaframes/protocol/messages/kafka.pyi"


def write_stub() -> None:
    """Write the stub atomically, unless it exists and matches the catalog."""
    sys.path.insert(0, str(SOURCES))
    try:
        from kafkaframes.protocol.messages.stubs import make_stub
        from kafkaframes.protocol.spec import catalog
    finally:
        sys.path.remove(str(SOURCES))
    text = make_stub(map(catalog.load_spec, catalog.list_names()))
    if STUB_FILE.exists() and STUB_FILE.read_text("utf-8") == text:
        return
    part = STUB_FILE.with_name(f".{STUB_FILE.name}.{os.getpid()}")
    part.write_text(text, "utf-8")
    part.replace(STUB_FILE)


def get_build_hook() -> type[Any]:
    """Return hatchling's hook (``tool.hatch.build.hooks.custom``)."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class StubHook(BuildHookInterface):  # type: ignore[misc]
        """The build hook that writes the stub before a wheel is built."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            write_stub()

    return StubHook


def plugin(version: str) -> type[Any]:
    """Return a mypy plugin without hooks (``tool.mypy.plugins``), because the stub is written when mypy loads it."""
    from mypy.plugin import Plugin

    is_new = not STUB_FILE.exists()
    write_stub()
    if is_new:  # mypy has listed the files that it reads before it loads plugins
        sys.exit(f"{STUB_FILE} was missing and has been written; run mypy again")
    return Plugin


if __name__ == "__main__":
    write_stub()
