"""Base class of all messages and structs, and descriptions of their fields.

One class covers all versions: a value that was decoded at one version can be encoded at another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final, Self

from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages.plan import Default, MutableDefault, attribute_name, plan_default
from kafkaframes.protocol.spec.model import FieldSpec

_MAX_REPR_BYTES: Final = 64  # longer bytes are shown as their size and first bytes


class FieldInfo:
    """A description of a message class's field, for all versions."""

    __slots__ = ("attribute", "default", "spec", "struct")

    def __init__(self, spec: FieldSpec) -> None:
        self.spec = spec
        self.attribute = attribute_name(spec)
        self.default: Default = plan_default(spec)
        self.struct: type[Struct] | None = None

    def make_default(self) -> Any:
        """Return the default. A mutable default is a new object."""
        if self.default is MutableDefault.ARRAY:
            return []
        if self.default is MutableDefault.STRUCT:
            assert self.struct is not None
            return self.struct()
        return self.default


class Struct:
    """Base class of messages and of structs in messages."""

    __slots__ = ("_tags",)
    __hash__ = None  # type: ignore[assignment]  # values are mutable
    _fields: ClassVar[tuple[FieldInfo, ...]] = ()
    _by_attribute: ClassVar[dict[str, FieldInfo]] = {}
    _owner: ClassVar[Any]  # the message's class
    _tags: list[tuple[int, bytes]] | None

    def __init__(self, **fields: Any) -> None:
        cls: Any = next(base for base in type(self).__mro__ if "_fields" in vars(base))
        if "__init__" not in vars(cls):
            cls.__init__ = _make_init(cls)
        cls.__init__(self, **fields)

    @property
    def unknown_tags(self) -> list[tuple[int, bytes]]:
        """Unknown tagged fields as ``(tag, bytes)``, in ascending order. The returned list can be changed."""
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
        """Return the fields that differ from their defaults."""
        texts = [
            f"{info.attribute}={_shorten(value)}"
            for info in self._fields
            if (value := getattr(self, info.attribute)) != info.make_default()
        ]
        texts += [f"unknown_tags={self._tags!r}"] if self._tags else []
        return f"{type(self).__name__}({', '.join(texts)})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        twin = self.replace()
        for info in self._fields:
            setattr(twin, info.attribute, copy.deepcopy(getattr(self, info.attribute), memo))
        return twin

    def replace(self, **changes: Any) -> Self:
        """Return a copy with the given fields replaced. The copy shares all other values with the original."""
        fields = {info.attribute: getattr(self, info.attribute) for info in self._fields}
        return type(self)(**(fields | {"unknown_tags": self._tags or ()} | changes))

    def find(self, field: str, **keys: Any) -> Any:
        """Return the first element of an array with these key values, or None (Kafka's ``mapKey`` collections).

        >>> response.find("topics", name="orders")                                          # doctest: +SKIP

        Raises:
            OptionError: ``field`` is not an array of structs, or a name is not one of its keys.
        """
        return next(iter(self._matches(field, keys)), None)

    def find_all(self, field: str, **keys: Any) -> list[Any]:
        """Return all elements of an array with these key values, in order. Arrays may contain a key several times."""
        return list(self._matches(field, keys))

    def _matches(self, field: str, keys: dict[str, Any]) -> Iterable[Any]:
        """Return the elements of an array whose keys have these values."""
        info = self._by_attribute.get(field)
        if info is None or info.struct is None or not info.spec.type.is_array:
            raise OptionError(f"{type(self).__name__}.{field} is not an array of structs")
        names = {key.attribute for key in info.struct._fields if key.spec.map_key}
        if not keys or not names.issuperset(keys):
            raise OptionError(f"{info.struct.__name__} can be found by {', '.join(sorted(names)) or 'no key'}")
        items = getattr(self, field) or ()
        return (item for item in items if all(getattr(item, key) == value for key, value in keys.items()))


def _make_init(cls: type[Struct]) -> Any:
    """Return an ``__init__`` with a keyword for each field, created when the class is first called."""
    constants: dict[str, Any] = {"NEW": object()}
    keywords, lines = [], []
    for info in cls._fields:
        name = info.attribute
        if isinstance(info.default, MutableDefault):
            constants[f"make_{name}"] = list if info.default is MutableDefault.ARRAY else info.struct
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


def _shorten(value: Any) -> str:
    """Return the ``repr`` of a value; long bytes are shortened."""
    if isinstance(value, bytes) and len(value) > _MAX_REPR_BYTES:
        return f"<{len(value)} bytes {value[:8].hex()}...>"
    return repr(value)
