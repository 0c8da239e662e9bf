"""Each module of ``log``, ``cli`` and ``spark`` has its tests under its own name, so that a reader finds them."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "src" / "kafkaframes"


def modules(room: str) -> list[str]:
    """The modules of a room; a package's ``__init__`` has names only, kernels are tested beside their plain twins."""
    paths = (path.relative_to(SOURCES) for path in (SOURCES / room).rglob("*.py"))
    return sorted(str(path) for path in paths if path.name != "__init__.py" and not path.name.startswith("_kernels"))


@pytest.mark.parametrize("room", ["log", "cli", "spark"])
def test_every_module_has_its_tests_under_its_own_name(room):
    wanted = {one: Path(one).with_name(f"test_{Path(one).name.lstrip('_')}") for one in modules(room)}
    assert [one for one, path in wanted.items() if not (TESTS / path).is_file()] == []
