"""Regular expressions match the same names in the embedded broker and in Kafka, which uses RE2/J, except for listed
differences.
"""

from __future__ import annotations

import random
import re
import subprocess

from tests.interop.releases import JAVA_SOURCES, fetch

from kafkaframes.coordination.groups.subscriptions import match_names
from kafkaframes.errors import RefusedError

TOPIC_NAMES = (
    "",
    "a",
    "b",
    "ab",
    "aab",
    "A",
    "orders",
    "Orders-1",
    "orders.eu",
    "a.b",
    "a_b",
    "x1",
    "-",
    "a\nb",
    "é",
    "k",
    "K",
)
EXPRESSION_PARTS = r"""
    a b A . [ab] [^a] [a-z] [[:alpha:]] [[:^alpha:]] \w \W \d \D \s \S \b \B ^ $ \A \z \Z a* b+? b?? a{2} a{2,}
    a{,2} a{1,3}? a{1001} a** a++ (a|b) (ab)* (?:a|) () (?i) (?i:A) (?s). (?m)^ (?U)a* (?-i) (?P<n>a) (?<n>a) (?=a)
    (?<!a) (?>a) \1 \pL \p{Greek} \PN \p{Nope} \Qa.b\E \Qa.b \E \x61 \x{61} \141 \07 \0 \t \n \v \a \cA \e \u0061 \C
    \X \R \h \ [ ] []a] [^]a] [a- [z-a] [a-\d] [\d-z] [a&&b] { } a{ a{1 ( ) | * + ? é \é \- \_ \. K (?#x) (?x)a (?z)
    \G orders -1
"""
LARGE_EXPRESSIONS = (
    "(a?){1000}",
    "((a{30}){30}){30}",
    "((a{10}){10}){10}",
    "(\\pL?){900}",
    "(\\w?){900}",
    "(" * 999 + ")" * 999,
)

#: The differences in ``docs/broker-groups.md``. RE2/J rejects all but the first two; the broker accepts them.
KNOWN_DIFFERENCES = {
    "an escaped non-ASCII letter": r"\\[^\x00-\x7f]",
    "more than 8 MiB when compiled": r"\(\(a\{30\}\)\{30\}\)\{30\}|\(\\pL\?\)\{900\}",
    "any byte": r"\\C",
    "a repetition of a brace quantifier without an operand": r"\{[*+?]",
    "a group name that is used twice": r"\(\?P?<n>.*\(\?P?<n>",
}


def create_expressions() -> list[str]:
    rng, parts = random.Random(14), EXPRESSION_PARTS.split()
    random_texts = ["".join(rng.choices(parts, k=rng.randint(2, 4))) for _ in range(6_000)]
    return [*dict.fromkeys([*parts, *LARGE_EXPRESSIONS, *random_texts])]


def match_with_ours(text: str) -> str:
    try:
        whole = match_names(text, TOPIC_NAMES)
    except RefusedError:
        return "refused"
    return "".join("01"[name in whole] for name in TOPIC_NAMES)


def match_with_re2j(texts: list[str]) -> list[str]:
    lines = "\n".join(" ".join(word.encode().hex() for word in (text, *TOPIC_NAMES)) for text in texts)
    command = ["java", "-cp", fetch("com.google.re2j:re2j:1.8"), JAVA_SOURCES / "clients" / "Expressions.java"]
    process = subprocess.run(command, input=lines, check=True, capture_output=True, text=True, timeout=300)
    return process.stdout.splitlines()


def test_expressions_match_as_in_re2j() -> None:
    texts = create_expressions()
    answers = match_with_re2j(texts)
    assert len(answers) == len(texts)
    wrong = [
        (text, own_answer, answer)
        for text, answer in zip(texts, answers, strict=True)
        if (own_answer := match_with_ours(text)) != answer
        and not any(re.search(pattern, text) for pattern in KNOWN_DIFFERENCES.values())
    ]
    assert not wrong, wrong[:20]
