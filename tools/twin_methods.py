"""Griffe extension (named in mkdocs.yml) that documents ``poll = sync_method(AsyncConsumer.poll)`` as a method."""

from __future__ import annotations

import copy
import re
from typing import Any

import griffe

_MODULES = ("client.sync", "client.sync_share")
_TWIN_METHOD = re.compile(r"\w+\((Async\w+)\.(\w+)\)")


class TwinMethods(griffe.Extension):
    """A griffe extension that documents synchronous methods by those of the async class, without ``async``."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the synchronous clients after griffe has loaded the package.

        Raises:
            ValueError: no attribute of a module matches.
        """
        if pkg.name != "kafkaframes":
            return
        for name in _MODULES:
            _replace_methods(pkg[name])


def _replace_methods(module: griffe.Module) -> None:
    """Replace each generated attribute of a client with the async class's method."""
    count = 0
    for client in module.classes.values():
        for name, attribute in client.attributes.items():
            match = _TWIN_METHOD.fullmatch(str(attribute.value))
            if match is not None:
                member = module[match[1]].final_target[match[2]]  # an alias if the class inherits it
                method = copy.copy(member.final_target if member.is_alias else member)
                method.labels, method.lineno = method.labels - {"async"}, attribute.lineno
                client.set_member(name, method)
                count += 1
    if not count:
        raise ValueError(f"{module.path} has no attribute that matches {_TWIN_METHOD.pattern!r}")
