"""The base of every class that stands for a struct of a message, and what such a class knows of its fields.

The classes have slots and nothing per version: a value decoded at one version is encoded at another as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final, Self

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.plan import Default, Empty, attribute_of, default_of
from kafkaframes.protocol.spec.model import FieldSpec

_LONGEST_BYTES: Final = 64  # in a repr; more is a count and the first few


class FieldInfo:
    """What a class knows of one of its fields, whatever the version."""

    __slots__ = ("attribute", "default", "spec", "struct")

    def __init__(self, spec: FieldSpec) -> None:
        self.spec = spec
        self.attribute = attribute_of(spec)
        self.default: Default = default_of(spec)
        self.struct: type[Struct] | None = None

    def make_default(self) -> Any:
        """Return the default, made anew where it can be changed."""
        if self.default is Empty.ARRAY:
            return []
        if self.default is Empty.STRUCT:
            assert self.struct is not None
            return self.struct()
        return self.default


class Struct:
    """The base of every generated class: a message, or a struct in one."""

    __slots__ = ("_tags",)
    __hash__ = None  # type: ignore[assignment]  # values can change
    _fields: ClassVar[tuple[FieldInfo, ...]] = ()
    _by_attribute: ClassVar[dict[str, FieldInfo]] = {}
    _owner: ClassVar[Any]  # the message's class
    _tags: list[tuple[int, bytes]] | None

    def __init__(self, **fields: Any) -> None:
        made: Any = next(one for one in type(self).__mro__ if "_fields" in vars(one))
        if "__init__" not in vars(made):
            made.__init__ = _initialiser(made)
        made.__init__(self, **fields)

    @property
    def unknown_tags(self) -> list[tuple[int, bytes]]:
        """The tagged fields that the spec does not declare, as ``(tag, bytes)``, ascending; yours to change."""
        if self._tags is None:
            self._tags = []
        return self._tags

    @unknown_tags.setter
    def unknown_tags(self, tags: Iterable[tuple[int, bytes]]) -> None:
        self._tags = list(tags)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.__class__ is not self.__class__:
            return NotImplemented
        if (self._tags or None) != (other._tags or None):
            return False
        return not self._fields or bool(self._values(self) == self._values(other))

    _values: ClassVar[Any] = None  # an attrgetter of all fields

    def __repr__(self) -> str:
        """Show what differs from the defaults."""
        shown = [
            f"{info.attribute}={_short(value)}"
            for info in self._fields
            if (value := getattr(self, info.attribute)) != info.make_default()
        ]
        shown += [f"unknown_tags={self._tags!r}"] if self._tags else []
        return f"{type(self).__name__}({', '.join(shown)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        twin = self.replace()
        for info in self._fields:
            setattr(twin, info.attribute, copy.deepcopy(getattr(self, info.attribute), memo))
        return twin

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; what is not changed is shared with this one."""
        fields = {info.attribute: getattr(self, info.attribute) for info in self._fields}
        return type(self)(**(fields | {"unknown_tags": self._tags or ()} | changes))

    def find(self, field: str, **keys: Any) -> Any:
        """Return the first element of an array with these keys, or None (Kafka's ``mapKey`` collections).

        >>> response.find("topics", name="orders")                                          # doctest: +SKIP

        Raises:
            OptionError: ``field`` is no array of structs, or a key is no key of theirs.
        """
        return next(iter(self._matches(field, keys)), None)

    def find_all(self, field: str, **keys: Any) -> list[Any]:
        """Return every element of an array with these keys, in order: keys may repeat on the wire."""
        return list(self._matches(field, keys))

    def _matches(self, field: str, keys: dict[str, Any]) -> Iterable[Any]:
        info = self._by_attribute.get(field)
        if info is None or info.struct is None or not info.spec.type.is_array:
            raise OptionError(f"{type(self).__name__}.{field} is no array of structs")
        known = {one.attribute for one in info.struct._fields if one.spec.map_key}
        if not keys or not known.issuperset(keys):
            raise OptionError(f"{info.struct.__name__} is found by {', '.join(sorted(known)) or 'no key'}")
        items = getattr(self, field) or ()
        return (one for one in items if all(getattr(one, key) == value for key, value in keys.items()))


def _initialiser(cls: type[Struct]) -> Any:
    """Return an ``__init__`` with a keyword for each field. Made at the first call: most classes are never called."""
    constants: dict[str, Any] = {"NEW": object()}
    keywords, lines = [], []
    for info in cls._fields:
        name = info.attribute
        if isinstance(info.default, Empty):
            constants[f"make_{name}"] = list if info.default is Empty.ARRAY else info.struct
            keywords.append(f"{name}=NEW")
            lines.append(f"    _o.{name} = make_{name}() if {name} is NEW else {name}")
        else:
            constants[f"default_{name}"] = info.default
            keywords.append(f"{name}=default_{name}")
            lines.append(f"    _o.{name} = {name}")
    signature = ", ".join(["_o, /, *", *keywords, "unknown_tags=()"])
    text = "\n".join([f"def __init__({signature}):", *lines, "    _o._tags = list(unknown_tags) or None", ""])
    exec(compile(text, f"<kafkaframes {cls.__qualname__}>", "exec"), constants)
    return constants["__init__"]


def _short(value: Any) -> str:
    if isinstance(value, bytes) and len(value) > _LONGEST_BYTES:
        return f"<{len(value)} bytes {value[:8].hex()}...>"
    return repr(value)
