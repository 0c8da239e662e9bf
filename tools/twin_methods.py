"""Show ``poll = _waits(AsyncConsumer.poll)`` as the method that it is: an extension of griffe, named in mkdocs.yml."""

from __future__ import annotations

import copy
import re
from typing import Any

import griffe

_MODULE = "client.sync"
_MADE_OF = re.compile(r"_(?:waits|reads|on_loop)\((\w+)\.(\w+)\)")


class TwinMethods(griffe.Extension):
    """Put a function in the place of the attribute: the twin's, which is not awaited here."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the classes of one module; mkdocstrings has just loaded its package."""
        if pkg.name != "kafkaframes":
            return
        module = pkg[_MODULE]
        for client in module.classes.values():
            for name, attribute in client.attributes.items():
                made = _MADE_OF.fullmatch(str(attribute.value))
                if made is not None:
                    member = module[made[1]].final_target[made[2]]  # an alias if the class inherits it
                    method = copy.copy(member.final_target if member.is_alias else member)
                    method.labels, method.lineno = method.labels - {"async"}, attribute.lineno
                    client.set_member(name, method)
