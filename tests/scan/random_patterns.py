"""Random Java regular expressions for topic names, and the names on which they are compared."""

import random

TOPIC_NAMES = (
    "a", "b", "A", "1", "_", ".", "-", "ab", "ba", "aa", "aB", "Ab", "AB", "a1", "1a", "a.b", "a-b", "a_b", "..a", "--",
    "aaa", "aab", "aba", "abab", "bbb", "abc", "ABC", "aBc", "a.b.c", "orders", "Orders-1", "orders.2", "x_1-y", "Zz09",
    "aaaa", "aaab", "b.a-1", "cab", "kK", "sS", "iI", "zZ", "0123456789", "a" * 12, "ab" * 6, "-a_", "1.1",
    "Q", "E", "dl.x",
)  # fmt: skip
_SINGLES = "abcABC12._-"
_PROPERTIES = (
    "Lower", "Upper", "ASCII", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print", "Blank", "Cntrl", "XDigit",
    "Space", "L", "Lu", "Ll", "Lt", "N", "Nd", "P", "Pd", "Pc", "Po", "S", "LC", "LD", "L1", "IsAlphabetic",
    "IsLetter", "IsLatin", "IsGreek", "IsCommon", "IsLu", "IsLowercase", "IsUppercase", "IsDigit", "IsPunctuation",
    "IsWhite_Space", "InBasicLatin", "InGreek", "javaLowerCase", "javaUpperCase", "javaLetterOrDigit",
    "javaJavaIdentifierStart", "javaWhitespace", "IsHex_Digit", "script=Latin", "sc=Grek", "gc=Lu",
    "blk=BasicLatin", "general_category=Nd", "all", "Cn", "IsAssigned",
)  # fmt: skip
_ESCAPES = (
    r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\h", r"\H", r"\v", r"\V", r"\R", r"\X", r"\.", r"\-", r"\_", r"\\",
    r"\{", r"\x61", r"\x{62}", r"\u0041", r"\061", r"\t", r"\cA", r"\N{DIGIT ONE}",
)  # fmt: skip
_FLAGS = ("i", "m", "s", "u", "d", "U", "iu", "i-s", "x", "-i", "ix")


class ExpressionGenerator:
    """Generates random Java regular expressions, most of them valid."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.groups = 0

    def make(self):
        self.groups = 0
        return self.alternatives(3)

    def alternatives(self, depth):
        return "|".join(self.sequence(depth) for _ in range(self.dice.choice([1, 1, 1, 2, 3])))

    def sequence(self, depth):
        return "".join(self.repeat(depth) for _ in range(self.dice.choice([0, 1, 2, 2, 3, 4])))

    def repeat(self, depth):
        atom = self.atom(depth)
        if self.dice.random() < 0.6:
            return atom
        repetition = self.dice.choice(["?", "*", "+", "{2}", "{1,}", "{0,3}", "{0}", "*", "+"])
        return atom + repetition + self.dice.choice(["", "", "", "?", "+"])

    def atom(self, depth):
        kinds = [self.single] * 4 + [self.escape] * 2 + [self.char_class] * 3 + [self.quote, self.anchor, self.odd]
        if depth:
            kinds += [self.group] * 3
        make = self.dice.choice(kinds)
        return make(depth)

    def single(self, depth):
        return self.dice.choice([*_SINGLES, ".", ".", "é", " ", "/", "&", "}", "]", "#", "="])

    def escape(self, depth):
        return self.dice.choice([*_ESCAPES, self.property(), self.property(), r"\pL", r"\PN"])

    def property(self):
        return f"\\{self.dice.choice('pP')}{{{self.dice.choice(_PROPERTIES)}}}"

    def char_class(self, depth):
        dice = self.dice
        text = "[" + dice.choice(["", "", "^"])
        for operand in range(dice.choice([1, 1, 1, 2, 2, 3])):
            text += "&&" if operand else ""
            text += "".join(self.class_item(depth) for _ in range(dice.choice([1, 1, 2, 3])))
        return text + "]"

    def class_item(self, depth):
        dice = self.dice
        kind = dice.randrange(9)
        if kind < 3:
            return dice.choice(_SINGLES)
        if kind < 5:
            return dice.choice(
                ["a-c", "A-Z", "0-9", "b-z", "Z-a", "--9", "a-", "-", "\u00e9", "^", "&", "\u212a", "+-9", " "]
            )
        if kind == 5:
            return dice.choice([r"\d", r"\W", r"\.", r"\-", r"\\", r"\x61", r"\s", r"\Qa-\E", r"\[", r"\]", r"\n"])
        if kind == 6:
            return self.property()
        return self.char_class(depth - 1) if depth else "b"

    def quote(self, depth):
        return rf"\Q{self.dice.choice(['a.b', 'a', '.', '[', 'a*', '', 'a b', '(a)', '1-2'])}\E"

    def anchor(self, depth):
        return self.dice.choice(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G", r"\b{g}"])

    def odd(self, depth):
        dice = self.dice
        references = [rf"\{number}" for number in range(1, self.groups + 1)] or ["a"]
        items = [*references, f"(?{dice.choice(_FLAGS)})"]
        if dice.random() < 0.3:
            items += [rf"\{dice.randrange(1, 4)}", "{", "*", ")", "(", "["]
        return dice.choice(items)

    def group(self, depth):
        dice = self.dice
        head = dice.choice(
            [
                "(",
                "(",
                "(",
                "(?:",
                "(?=",
                "(?!",
                "(?>",
                "(?<=",
                "(?<!",
                f"(?<n{self.groups}>",
                f"(?{dice.choice(_FLAGS)}:",
            ]
        )
        text = f"{head}{self.alternatives(depth - 1)})"
        if head == "(" or head.startswith("(?<n"):
            self.groups += 1
        return text
