r"""Translate Java's regular expressions for topic names (``java.util.regex.Pattern`` of Java 17) to Python's regular
expressions.

``subscribePattern`` of Spark's Kafka connector is a Java expression. Python has another syntax: it does not have
``[a-z&&[^b]]``, ``\Q..\E`` and ``\p{Lower}``, and it reads ``[[a]`` differently. An expression is therefore parsed by
Java's rules and translated. This is possible because topic names consist of only 65 characters: each class becomes the
set of these characters that it matches. Elements that match only other characters (``\s``, ``\R``) become a class that
matches nothing.

Expressions that Python does not support are rejected: a look-behind of variable width, or a reference to a group that
is not closed yet.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, NoReturn

from kafkaframes.wire.integers import MAX_INT32

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")  # characters that are valid in topic names
Set = frozenset[str]
_NEVER_MATCHING_PATTERN: Final = r"[^\x00-\U0010ffff]"
_MAX_NESTING: Final = 100
_INLINE_FLAGS: Final = "idmsuxU"
_QUANTIFIERS: Final = "?*+"
_LETTERS, _DIGITS = frozenset(string.ascii_letters), frozenset(string.digits)
_LOWER, _UPPER = frozenset(string.ascii_lowercase), frozenset(string.ascii_uppercase)
_PUNCTUATION: Final = frozenset("._-")
_WORD_CHARACTERS: Final = _LETTERS | _DIGITS | {"_"}
_EMPTY_SET: Final[Set] = frozenset()
_ESCAPED_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ESCAPED_CLASSES: Final[dict[str, Set]] = {
    "d": _DIGITS, "w": _WORD_CHARACTERS, "s": _EMPTY_SET, "h": _EMPTY_SET, "v": _EMPTY_SET,
}  # fmt: skip
_EMPTY_CATEGORIES: Final = (  # Unicode categories without a character that is valid in topic names
    "Cn", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs", "Ps", "Pe", "Sm",
    "Sc", "Sk", "So", "Pi", "Pf", "M", "Z", "C", "S",
)  # fmt: skip
_EMPTY_SCRIPTS: Final = (  # Unicode scripts without a character that is valid in topic names
    "GREEK", "GREK", "CYRILLIC", "CYRL", "ARABIC", "ARAB", "HEBREW", "HEBR", "HAN", "HANI", "HIRAGANA", "HIRA",
    "KATAKANA", "KANA", "HANGUL", "HANG", "THAI", "DEVANAGARI", "DEVA", "BENGALI", "BENG", "ARMENIAN", "ARMN",
    "GEORGIAN", "GEOR", "ETHIOPIC", "ETHI", "TAMIL", "TAML", "INHERITED", "ZINH",
)  # fmt: skip
_EMPTY_BLOCKS: Final = (  # Unicode blocks without a character that is valid in topic names
    "LATIN1SUPPLEMENT", "LATINEXTENDEDA", "LATINEXTENDEDB", "GREEK", "GREEKANDCOPTIC", "CYRILLIC", "ARMENIAN",
    "HEBREW", "ARABIC", "THAI", "DEVANAGARI", "BENGALI", "TAMIL", "GEORGIAN", "ETHIOPIC", "HIRAGANA", "KATAKANA",
    "HANGULSYLLABLES", "CJKUNIFIEDIDEOGRAPHS", "GENERALPUNCTUATION", "CURRENCYSYMBOLS", "MATHEMATICALOPERATORS",
    "BOXDRAWING",
)  # fmt: skip
_ESCAPED_ELEMENTS: Final = {
    "A": r"\A", "G": r"\A", "Z": r"\Z", "z": r"\Z", "b": r"\b", "B": r"\B", "R": _NEVER_MATCHING_PATTERN, "X": "(?s:.)",
}  # fmt: skip
_POSIX_PROPERTIES: Final[dict[str, Set]] = {
    "Lower": _LOWER, "Upper": _UPPER, "ASCII": ALPHABET, "Alpha": _LETTERS, "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS, "Punct": _PUNCTUATION, "Graph": ALPHABET, "Print": ALPHABET, "Blank": _EMPTY_SET,
    "Cntrl": _EMPTY_SET, "XDigit": frozenset(string.hexdigits), "Space": _EMPTY_SET,
}  # fmt: skip
_CATEGORY_CHARACTERS: Final[dict[str, Set]] = {
    **dict.fromkeys(
        _EMPTY_CATEGORIES, _EMPTY_SET
    ),
    "Lu": _UPPER, "Ll": _LOWER, "Nd": _DIGITS, "Pd": frozenset("-"), "Pc": frozenset("_"), "Po": frozenset("."),
    "L": _LETTERS, "N": _DIGITS, "P": _PUNCTUATION, "LC": _LETTERS, "LD": _LETTERS | _DIGITS, "L1": ALPHABET,
    "all": ALPHABET,
}  # fmt: skip
_JAVA_PROPERTIES: Final[dict[str, Set]] = {
    "javaLowerCase": _LOWER, "javaUpperCase": _UPPER, "javaAlphabetic": _LETTERS, "javaIdeographic": _EMPTY_SET,
    "javaTitleCase": _EMPTY_SET, "javaDigit": _DIGITS, "javaDefined": ALPHABET, "javaLetter": _LETTERS,
    "javaLetterOrDigit": _LETTERS | _DIGITS, "javaJavaIdentifierStart": _LETTERS | {"_"},
    "javaJavaIdentifierPart": _WORD_CHARACTERS, "javaUnicodeIdentifierStart": _LETTERS,
    "javaUnicodeIdentifierPart": _WORD_CHARACTERS, "javaIdentifierIgnorable": _EMPTY_SET, "javaSpaceChar": _EMPTY_SET,
    "javaWhitespace": _EMPTY_SET, "javaISOControl": _EMPTY_SET,
    "javaMirrored": _EMPTY_SET,
}  # fmt: skip
_UNICODE_PROPERTIES: Final[dict[str, Set]] = {  # names after the prefix "Is"; letter case is ignored
    "ALPHABETIC": _LETTERS, "LETTER": _LETTERS, "IDEOGRAPHIC": _EMPTY_SET, "LOWERCASE": _LOWER, "UPPERCASE": _UPPER,
    "TITLECASE": _EMPTY_SET, "WHITE_SPACE": _EMPTY_SET, "CONTROL": _EMPTY_SET, "PUNCTUATION": _PUNCTUATION,
    "HEX_DIGIT": frozenset(string.hexdigits), "ASSIGNED": ALPHABET, "NONCHARACTER_CODE_POINT": _EMPTY_SET,
    "DIGIT": _DIGITS, "ALNUM": _LETTERS | _DIGITS, "BLANK": _EMPTY_SET, "GRAPH": ALPHABET, "PRINT": ALPHABET,
    "WORD": _WORD_CHARACTERS, "JOIN_CONTROL": _EMPTY_SET,
    "WHITESPACE": _EMPTY_SET, "HEXDIGIT": frozenset(string.hexdigits), "NONCHARACTERCODEPOINT": _EMPTY_SET,
    "JOINCONTROL": _EMPTY_SET,
}  # fmt: skip
_SCRIPT_CHARACTERS: Final[dict[str, Set]] = {  # names of Unicode scripts; letter case is ignored
    **dict.fromkeys(("LATIN", "LATN"), _LETTERS),
    **dict.fromkeys(("COMMON", "ZYYY"), ALPHABET - _LETTERS),
    **dict.fromkeys(
        _EMPTY_SCRIPTS,
        _EMPTY_SET,
    ),
}
_BLOCK_CHARACTERS: Final[
    dict[str, Set]
] = {  # names of Unicode blocks; letter case, spaces, hyphens and underscores are ignored
    "BASICLATIN": ALPHABET,
    **dict.fromkeys(
        _EMPTY_BLOCKS,
        _EMPTY_SET,
    ),
}
_CASED_CLASSES: Final = frozenset(
    ("Lower", "Upper", "Lu", "Ll", "Lt", "javaLowerCase", "javaUpperCase", "javaTitleCase")
)
_CASED_UNICODE_CLASSES: Final = frozenset(("LOWERCASE", "UPPERCASE", "TITLECASE"))


def compile_java_pattern(text: str) -> re.Pattern[str]:
    """Return a Python expression that fully matches the same topic names as a Java expression.

    >>> names = compile_java_pattern(r"\\Qa.\\E[a-z&&[^b]]\\p{Digit}++\\z")
    >>> [bool(names.fullmatch(name)) for name in ("a.c12", "a.b1", "axc1")]
    [True, False, False]

    Raises:
        ValueError: the text is empty, is not a Java expression, or cannot be translated. The message contains the
            position.
    """
    if not text.strip():
        raise ValueError("is empty: must be a regular expression")
    python_text = _Parser(text).translate()
    try:
        return re.compile(python_text, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} cannot be translated from Java's syntax: {error}") from None


class _Char(NamedTuple):
    """A character of an expression. A character that ``\\Q..\\E`` quotes is literal."""

    text: str
    position: int
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags of an expression, such as ``(?i)``."""

    ignore_case: bool = False
    unicode_case: bool = False
    comments: bool = False


@dataclass(slots=True)
class _Groups:
    """The capturing groups before a position of an expression."""

    count: int = 0
    certain: frozenset[int] = frozenset()  # groups that have always matched at this position
    names: dict[str, int] = field(default_factory=dict)


class _Parser:
    """A recursive descent parser. Each method returns the Python text of the element that it has parsed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._chars = list(_remove_quotes(text))
        self._position = 0
        self._flags = _Flags()
        self._groups = _Groups()
        self._depth = 0

    def translate(self) -> str:
        """Return the Python text of the whole expression."""
        result = self._parse_alternatives()
        if self._position < len(self._chars):
            self._raise_error("an unmatched ')'")
        return result

    # ------------------------------------------------------------------------------------------------- characters

    def _raise_error(self, problem: str) -> NoReturn:
        """Raise a ValueError that describes a problem at the current position of the expression."""
        position = self._chars[self._position].position if self._position < len(self._chars) else len(self._text)
        raise ValueError(f"{self._text!r} is not a supported Java regular expression: {problem} near index {position}")

    def _skip_comments(self) -> None:
        """Skip white space and comments if the flag (?x) is set."""
        if not self._flags.comments:
            return
        while self._position < len(self._chars) and not self._chars[self._position].is_quoted:
            char = self._chars[self._position].text
            if char == "#":
                while (
                    self._position < len(self._chars) and self._chars[self._position].text not in "\n\r\x85\u2028\u2029"
                ):
                    self._position += 1
            elif char in " \t\n\v\f\r":
                self._position += 1
            else:
                return

    def _peek_char(self) -> str:
        """Return the next character if it may be a metacharacter; "" at the end and before a quoted character."""
        self._skip_comments()
        if self._position >= len(self._chars) or self._chars[self._position].is_quoted:
            return ""
        return self._chars[self._position].text

    def _consume_text(self, text: str) -> bool:
        """Consume this text if it is next, and return whether it was."""
        if self._peek_char() == text:
            self._position += 1
            return True
        return False

    def _consume_char(self) -> _Char:
        if self._position >= len(self._chars):
            self._raise_error("the expression is incomplete")
        self._position += 1
        return self._chars[self._position - 1]

    def _consume_plain_char(self) -> str:
        """Return the next character without skipping comments, inside an escape or the head of a group."""
        return self._consume_char().text

    def _is_at_end(self) -> bool:
        """Return whether the whole expression has been parsed."""
        self._skip_comments()
        return self._position >= len(self._chars)

    @contextmanager
    def _enter_scope(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            self._raise_error(f"groups or classes are nested more than {_MAX_NESTING} deep,")
        yield
        self._depth -= 1

    # -------------------------------------------------------------------------------------------------- structure

    def _parse_alternatives(self) -> str:
        """Parse alternatives separated by ``|``, up to a closing parenthesis or the end."""
        outer_certain_groups = self._groups.certain
        parts, certain = [self._parse_sequence()], self._groups.certain
        while self._consume_text("|"):
            self._groups.certain = outer_certain_groups
            parts.append(self._parse_sequence())
            certain = certain & self._groups.certain
        self._groups.certain = certain
        return "|".join(parts)

    def _parse_sequence(self) -> str:
        """Parse the consecutive elements of one alternative."""
        parts: list[str] = []
        while not self._is_at_end() and self._peek_char() not in ("|", ")"):
            certain = self._groups.certain
            atom = self._parse_atom()
            if atom is None:
                continue
            parts.append(self._parse_repetition(atom))
            if parts[-1].startswith("(?!") or parts[-1].startswith("(?<!") or parts[-1] != atom:
                self._groups.certain = certain
        return "".join(parts)

    def _parse_repetition(self, atom: str) -> str:
        """Parse the quantifier after an element, and return the element with it."""
        char = self._peek_char()
        if char in _QUANTIFIERS and char:
            self._position += 1
            repetition = char
        elif char == "{":
            repetition = self._parse_count()
        else:
            return atom
        following = self._peek_char()
        if following in ("?", "+"):
            self._position += 1
            repetition += following
            following = self._peek_char()
        if following and following in _QUANTIFIERS + "{":
            self._raise_error("a repetition of a repetition")
        return f"(?:{atom}){repetition}"

    def _parse_count(self) -> str:
        """Parse a quantifier in braces, such as ``{2,5}``."""
        self._position += 1
        min_count = self._parse_number()
        max_count: int | None = min_count
        if self._consume_text(","):
            max_count = None if self._peek_char() == "}" else self._parse_number()
        if not self._consume_text("}"):
            self._raise_error("an unclosed repetition")
        if min_count > MAX_INT32 or (max_count is not None and not min_count <= max_count <= MAX_INT32):
            self._raise_error("an illegal repetition range")
        return f"{{{min_count},{'' if max_count is None else max_count}}}"

    def _parse_number(self) -> int:
        """Parse the decimal number of a quantifier."""
        digits = ""
        while (char := self._peek_char()) and char in string.digits:
            digits += char
            self._position += 1
        if not digits or len(digits) > 10:
            self._raise_error("an illegal repetition")
        return int(digits)

    def _parse_atom(self) -> str | None:
        """Return one element without its quantifier; None for flags."""
        char = self._peek_char()
        if char == "(":
            return self._parse_group()
        if char == "[":
            self._position += 1
            return _format_class(self._parse_class())
        if char == "\\":
            self._position += 1
            return self._parse_escape()
        if char == "^":
            self._position += 1
            return r"\A"
        if char == "$":
            self._position += 1
            return r"\Z"
        if char == ".":
            self._position += 1
            return _format_class(ALPHABET)
        if char and char in _QUANTIFIERS + "{":
            self._raise_error(f"a dangling {char!r}")
        return _format_class(self._fold_case(self._consume_char().text))

    def _parse_group(self) -> str | None:
        self._position += 1
        flags = self._flags
        if self._peek_char() != "?":
            return self._parse_capture(flags)
        self._position += 1
        char = self._consume_plain_char()
        if char in ":=!>":
            return self._parse_until_close(f"(?{char}", flags)
        if char == "<":
            if self._position < len(self._chars) and self._chars[self._position].text in "=!":
                return self._parse_until_close(f"(?<{self._consume_plain_char()}", flags)
            return self._parse_capture(flags, self._parse_group_name())
        self._position -= 1
        return self._parse_inline_flags(flags)

    def _parse_capture(self, flags: _Flags, name: str | None = None) -> str:
        """Parse a capturing group, with or without a name."""
        self._groups.count += 1
        number = self._groups.count
        if name is not None:
            if name in self._groups.names:
                self._raise_error(f"a second group named {name!r}")
            self._groups.names[name] = number
        result = self._parse_until_close("(", flags)
        self._groups.certain |= {number}
        return result

    def _parse_until_close(self, head: str, flags: _Flags) -> str:
        """Parse the rest of a group, up to its closing parenthesis. Flags that are set inside the group end with it."""
        with self._enter_scope():
            result = f"{head}{self._parse_alternatives()})"
        if not self._consume_text(")"):
            self._raise_error("an unclosed group")
        self._flags = flags
        return result

    def _parse_group_name(self) -> str:
        name = ""
        while (char := self._consume_plain_char()) != ">":
            if not (char.isascii() and (char.isalpha() or (name and char.isdigit()))):
                self._raise_error("an illegal group name")
            name += char
        if not name:
            self._raise_error("a group with an empty name")
        return name

    def _parse_inline_flags(self, outer: _Flags) -> str | None:
        """Parse and set flags such as ``(?i)``. Return the text of a group with flags, ``(?i:x)``; otherwise None."""
        flags, value = outer, True
        while (char := self._consume_plain_char()) not in (")", ":"):
            if char == "-" and value:
                value = False
            elif char in _INLINE_FLAGS:
                flags = _set_flag(flags, char, value=value)
            else:
                self._raise_error(f"an unknown flag {char!r}")
        self._flags = flags
        return self._parse_until_close("(?:", outer) if char == ":" else None

    # ---------------------------------------------------------------------------------------------------- escapes

    def _parse_escape(self) -> str:
        """Return the element of an escape outside a class."""
        char = self._consume_plain_char()
        if char in "123456789":
            return self._parse_reference(char)
        if char == "k":
            if self._consume_plain_char() != "<":
                self._raise_error(r"\k without a name")
            name = self._parse_group_name()
            if name not in self._groups.names:
                self._raise_error(f"a reference to group {name!r}, which does not exist,")
            return self._format_reference(self._groups.names[name])
        if char == "b" and self._peek_char() == "{":
            self._raise_error(r"\b{g}")
        if char in _ESCAPED_ELEMENTS:
            return _ESCAPED_ELEMENTS[char]
        return _format_class(self._parse_escaped_set(char))

    def _parse_reference(self, digits: str) -> str:
        """Parse a back reference by number, such as ``\\1``."""
        while (
            self._position < len(self._chars) and (char := self._chars[self._position].text) in string.digits and char
        ):
            if int(digits + char) > self._groups.count:
                break
            digits += char
            self._position += 1
        return self._format_reference(int(digits))

    def _format_reference(self, number: int) -> str:
        """Return the Python text of a back reference to a group."""
        if number not in self._groups.certain:  # in Java, groups keep their text after their alternative has failed
            self._raise_error(f"a reference to group {number}, which may have no text there,")
        return rf"(?i:\{number})" if self._flags.ignore_case else rf"(?:\{number})"

    def _parse_escaped_set(self, char: str) -> Set:
        """Return the character set of an escape."""
        if char.lower() in _ESCAPED_CLASSES:
            result = _ESCAPED_CLASSES[char.lower()]
            return ALPHABET - result if char.isupper() else result
        if char in ("p", "P"):
            result = self._parse_property()
            return ALPHABET - result if char == "P" else result
        return self._fold_case(self._parse_escaped_character(char))

    def _parse_escaped_character(self, char: str) -> str:
        """Return the character that an escape, such as ``\\t`` or ``\\x41``, stands for."""
        if char in _ESCAPED_CHARACTERS:
            return _ESCAPED_CHARACTERS[char]
        if char == "0":
            return self._parse_octal()
        if char == "x":
            if self._position < len(self._chars) and self._chars[self._position].text == "{":
                self._position += 1
                return self._parse_code_point(self._consume_text_before("}"))
            return self._parse_code_point(self._consume_plain_char() + self._consume_plain_char())
        if char == "u":
            return self._parse_code_point("".join(self._consume_plain_char() for _ in range(4)))
        if char == "c":
            return chr(ord(self._consume_plain_char()) ^ 64)
        return self._parse_named_character() if char == "N" else self._escape_literal(char)

    def _parse_named_character(self) -> str:
        """Return the character with a Unicode name, as in ``\\N{DIGIT ONE}``."""
        if self._consume_plain_char() != "{":
            self._raise_error(r"\N without a name")
        try:
            return unicodedata.lookup(self._consume_text_before("}"))
        except KeyError:
            self._raise_error("an unknown character name")

    def _escape_literal(self, char: str) -> str:
        if char.isascii() and char.isalpha():
            self._raise_error(f"an unknown escape \\{char}")
        return char

    def _parse_octal(self) -> str:
        digits = ""
        while self._position < len(self._chars) and len(digits) < 3 and self._chars[self._position].text in "01234567":
            if len(digits) == 2 and digits[0] > "3":
                break
            digits += self._consume_plain_char()
        if not digits:
            self._raise_error("an illegal octal escape")
        return chr(int(digits, 8))

    def _parse_code_point(self, digits: str) -> str:
        """Return the character with the code point in these hexadecimal digits."""
        if not digits or len(digits) > 8 or not all(char in string.hexdigits for char in digits):
            self._raise_error("an illegal hexadecimal escape")
        if (number := int(digits, 16)) > 0x10FFFF:
            self._raise_error("a code point that does not exist")
        return chr(number)

    def _consume_text_before(self, end: str) -> str:
        """Consume the text before ``end``, and ``end`` itself. Return the text."""
        text = ""
        while (char := self._consume_plain_char()) != end:
            text += char
        return text

    def _fold_case(self, char: str) -> Set:
        """Return the set that a character matches; with (?i), it includes the other case."""
        return self._build_char_set(lambda other: other == char, [char])

    def _build_char_set(self, is_member: Callable[[str], bool], singles: list[str] | None = None) -> Set:
        """Return the set that a condition matches. With (?i), Java checks both cases of a character."""
        result = {char for char in ALPHABET if is_member(char)}
        if self._flags.ignore_case:
            result |= {char for char in ALPHABET if is_member(char.lower()) or is_member(char.upper())}
            if self._flags.unicode_case:
                result |= {
                    char for char in ALPHABET for single in singles or () if _fold_unicode(single) == char.lower()
                }
        return frozenset(result)

    # ---------------------------------------------------------------------------------------------------- classes

    def _parse_class(self) -> Set:
        """Return the set of a class after its ``[``, and consume its ``]``."""
        is_negated = self._position < len(self._chars) and self._chars[self._position][::2] == ("^", False)
        self._position += is_negated
        with self._enter_scope():
            result = self._parse_class_items()
        self._position += 1
        return ALPHABET - result if is_negated else result

    def _parse_class_items(self) -> Set:
        """Return the set of the items up to a ``]``, from left to right as in Java.

        The operand of ``&&`` consists of the classes that follow it. If another kind of item follows, the operand is
        all the
        remaining items: ``[ab&&[b]c&&d]`` is the intersection of ``[ab]`` with the union of ``[b]`` and ``[c&&d]``.
        """
        result: Set | None = None
        while (char := self._peek_class_char()) != "]" or result is None:
            if char == "&" and self._is_second_next_char("&"):
                self._position += 2
                operand = self._parse_operand()
                result = operand if result is None else result & operand
            else:
                item = self._parse_nested_class() if char == "[" else self._parse_range()
                result = item if result is None else result | item
        return result

    def _parse_operand(self) -> Set:
        """Return the set of characters in the operand after ``&&``."""
        result: Set | None = None
        while (char := self._peek_class_char()) not in ("]", "&"):
            if char == "[":
                item = self._parse_nested_class()
            else:
                with self._enter_scope():
                    item = self._parse_class_items()
            result = item if result is None else result | item
        if result is None:
            self._raise_error("an empty operand of &&")
        return result

    def _parse_nested_class(self) -> Set:
        self._position += 1
        return self._parse_class()

    def _peek_class_char(self) -> str:
        """Return the next character inside a class, without consuming it."""
        if self._is_at_end():
            self._raise_error("an unclosed class")
        return self._peek_char()

    def _is_second_next_char(self, char: str) -> bool:
        """Return whether the character after the next one is ``char`` and is not quoted."""
        position = self._position
        self._position += 1
        result = self._peek_char() == char
        self._position = position
        return result

    def _parse_range(self) -> Set:
        """Return the set of a character, a range or an escape inside a class."""
        first = self._parse_class_character()
        if isinstance(first, frozenset):
            return first
        if self._peek_char() != "-":
            return self._fold_case(first)
        position = self._position
        self._position += 1
        if self._is_at_end() or self._peek_char() in ("[", "]"):
            self._position = position
            return self._fold_case(first)
        last = self._parse_class_character()
        if isinstance(last, frozenset) or last < first:
            self._raise_error("an illegal character range")
        return self._build_char_set(lambda char: first <= char <= last)

    def _parse_class_character(self) -> str | Set:
        if self._peek_char() != "\\":
            return self._consume_char().text
        self._position += 1
        char = self._consume_plain_char()
        if char.lower() in _ESCAPED_CLASSES or char in ("p", "P"):
            return self._parse_escaped_set(char)
        if char in "123456789":
            self._raise_error(f"an unknown escape \\{char} in a class")
        return self._parse_escaped_character(char)

    # ------------------------------------------------------------------------------------------------- properties

    def _parse_property(self) -> Set:
        """Return the set of characters with a property, such as ``\\p{Lu}``."""
        char = self._consume_plain_char()
        name = self._consume_text_before("}") if char == "{" else char
        if not name:
            self._raise_error("an empty property")
        result = self._find_property(name, is_single=char != "{")
        if result is None:
            self._raise_error(f"an unknown property {name!r}")
        return result

    def _find_property(self, name: str, *, is_single: bool) -> Set | None:
        """Return the characters in topic names that have a property; None for an unknown property."""
        key, equals, value = name.partition("=")
        if equals:
            return self._find_property_value(key.lower(), value)
        if self._flags.ignore_case and name in _CASED_CLASSES:
            return _LETTERS
        if is_single:
            return _CATEGORY_CHARACTERS.get(name)
        if name.startswith("In"):
            return _block(name[2:])
        if name.startswith("Is"):
            return self._find_unicode_property(name[2:])
        for table in (_POSIX_PROPERTIES, _CATEGORY_CHARACTERS, _JAVA_PROPERTIES):
            if name in table:
                return table[name]
        return None

    def _find_unicode_property(self, name: str) -> Set | None:
        """Return the set of characters for a property with the prefix ``Is``, such as ``IsAlphabetic``."""
        upper = name.upper()
        if upper in _CASED_UNICODE_CLASSES and self._flags.ignore_case:
            return _LETTERS
        if upper in _UNICODE_PROPERTIES:
            return _UNICODE_PROPERTIES[upper]
        if name in _CATEGORY_CHARACTERS:
            return _LETTERS if self._flags.ignore_case and name in _CASED_CLASSES else _CATEGORY_CHARACTERS[name]
        return _SCRIPT_CHARACTERS.get(upper)

    def _find_property_value(self, key: str, value: str) -> Set | None:
        """Return the set of characters for a property such as ``script=Latin``."""
        if key in ("sc", "script"):
            return _SCRIPT_CHARACTERS.get(value.upper())
        if key in ("blk", "block"):
            return _block(value)
        if key in ("gc", "general_category"):
            is_cased = self._flags.ignore_case and value in _CASED_CLASSES
            return _LETTERS if is_cased else _CATEGORY_CHARACTERS.get(value)
        return None


def _block(name: str) -> Set | None:
    return _BLOCK_CHARACTERS.get(re.sub(r"[ _-]", "", name).upper())


def _set_flag(flags: _Flags, char: str, *, value: bool) -> _Flags:
    """Return a copy of the flags in which one flag is changed.

    Flags for line ends are ignored, because topic names have none.
    """
    if char == "i":
        return replace(flags, ignore_case=value)
    if char in ("u", "U"):
        return replace(flags, unicode_case=value)
    return replace(flags, comments=value) if char == "x" else flags


def _fold_unicode(char: str) -> str:
    """Return a character as Java compares it with (?iu): the one-to-one lower case of its upper case."""
    upper = char.upper() if len(char.upper()) == 1 else char
    lower = upper.lower() if len(upper.lower()) == 1 else upper
    return "i" if upper == "\u0130" else lower


def _remove_quotes(text: str) -> Iterator[_Char]:
    r"""Yield the characters of an expression. Characters between ``\Q`` and ``\E`` are quoted."""
    position, is_quoted = 0, False
    while position < len(text):
        pair = text[position : position + 2]
        if is_quoted and pair == r"\E":
            is_quoted, position = False, position + 2
        elif is_quoted:
            yield _Char(text[position], position, is_quoted=True)
            position += 1
        elif pair == r"\Q":
            is_quoted, position = True, position + 2
        elif pair.startswith("\\") and len(pair) == 2:
            yield _Char(pair[0], position)
            yield _Char(pair[1], position + 1)
            position += 2
        else:
            yield _Char(text[position], position)
            position += 1


def _format_class(characters: Set) -> str:
    """Return a Python class that matches a set of characters."""
    if not characters:
        return _NEVER_MATCHING_PATTERN
    return f"[{''.join(map(re.escape, sorted(characters)))}]"
