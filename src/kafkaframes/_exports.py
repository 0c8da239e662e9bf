"""Import the public names of a package on first use, so that the package itself is cheap to import.

A package lists its public names in ``__all__``, imports them under ``TYPE_CHECKING`` for type checkers, and gives
``import_on_use`` the module of each::

    if not TYPE_CHECKING:  # type checkers report unknown names if they do not see __getattr__
        __getattr__, __dir__ = import_on_use(__name__, __all__, {"module": ("Name", "other_name")})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def import_on_use(
    package: str, exported: Sequence[str], modules: Mapping[str, Sequence[str]], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: name of the package.
        exported: all public names of the package.
        modules: names by the module that defines them, relative to the package.
        submodules: public modules of the package that are imported on use, too.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get_attribute(name: str) -> object:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    def list_attributes() -> list[str]:
        return list(exported)

    return get_attribute, list_attributes
