"""``sasl.kerberos.principal.to.local.rules``: examples for each part of a rule, and random texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker.security.kerberos import PrincipalRules
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.errors import OptionError

REALM = "NEW"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ([], "alice@NEW", "alice"),
        ([], "kafka/host@NEW", "kafka"),
        ([], "alice@OLD", None),
        (["RULE:[1:$1]"], "alice@OLD", "alice"),
        (["RULE:[1:$1]"], "kafka/host@OLD", None),
        (["RULE:[2:$1.$2]"], "kafka/host@OLD", "kafka.host"),
        # the result is not a simple name, and the rules after it are not tried
        (["RULE:[2:$1@$0]"], "kafka/host@OLD", None),
        (["RULE:[2:$1@$0]", "DEFAULT"], "kafka/host@NEW", None),
        (["RULE:[1:$1@$0](.*@OLD)s/@.*//"], "alice@OLD", "alice"),
        (["RULE:[1:$1@$0](.*@OLD)s/@.*//", "DEFAULT"], "bob@NEW", "bob"),
        (["RULE:[1:$1](al)"], "alice@OLD", None),  # the expression must match the whole name
        (["RULE:[1:$1]s/a/o/"], "anna@OLD", "onna"),
        (["RULE:[1:$1]s/a/o/g"], "anna@OLD", "onno"),
        (["RULE:[1:$1]s/(a)(n+)/$2$1/"], "anna@OLD", "nnaa"),
        (["RULE:[1:$1]s/(a)n/$12/"], "anna@OLD", "a2na"),  # group 12 does not exist
        (["RULE:[1:$1]s/a/\\$1\\\\/"], "anna@OLD", "$1\\nna"),
        (["RULE:[1:$1]s/(x)?a/[$1]/"], "anna@OLD", "[]nna"),
        (["RULE:[1:$1]/L"], "ALICE@OLD", "alice"),
        (["RULE:[1:$1]s/i/I/U"], "alice@OLD", "ALICE"),
        (["RULE:[1:$1]s/i/I//U"], "alice@OLD", "ALICE"),
        (["RULE:[1:$1]L"], "ALICE@OLD", "alice"),
        ([], "a/b/c@NEW", None),
        ([], "a\\@b@NEW", None),
        ([], "alice", None),
        ([], "@NEW", None),
        ([], "", None),
    ],
)
def test_rules_map_principals_to_names(rules, principal, user):
    names = PrincipalRules(rules, REALM)
    if user is None:
        with pytest.raises(AuthenticationError):
            names.map_principal(principal)
    else:
        assert names.map_principal(principal) == user


@pytest.mark.parametrize(
    "rule",
    [
        "", "default", "DEFAULT ", "RULE:", "RULE:[:$1]", "RULE:[1:$]", "RULE:[1:$2]", "RULE:[1:$99999999999]",
        "RULE:[1:$1](()", "RULE:[1:$1](*)", "RULE:[1:$1]s/(/x/", "RULE:[1:$1]s/a/$1/", "RULE:[1:$1]s/a/\\/",
        "RULE:[1:$1]s/a/$/", "RULE:[1:$1]s/a/b/gx", "RULE:[1:$1]s/a", "RULE:[1:$1]LU",
    ],
)  # fmt: skip
def test_an_invalid_rule_is_rejected_when_it_is_read(rule):
    with pytest.raises(OptionError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        PrincipalRules([rule], REALM)


RULE_TEXTS = st.text("ab$\\@/[]():12gLURE*.+?", max_size=12)
RANDOM_RULES = st.one_of(
    st.just("DEFAULT"),
    RULE_TEXTS.map("RULE:".__add__),
    st.builds(
        "RULE:[{}:{}]{}{}{}".format,
        st.integers(0, 3),
        st.text("ab$@012", max_size=6),
        st.one_of(st.just(""), st.text("ab.*@|", max_size=6).map("({})".format)),
        st.one_of(
            st.just(""),
            st.builds("s/{}/{}/{}".format, *[st.text("ab.+$1(\\", max_size=5)] * 2, st.sampled_from(["", "g"])),
        ),
        st.sampled_from(["", "/L", "/U", "L"]),
    ),
)


@given(
    st.lists(RANDOM_RULES, max_size=3),
    st.one_of(st.text(max_size=20), st.from_regex(r"[ab]{0,3}(/[ab]{0,3})?@(NEW|OLD)")),
)
def test_any_rule_and_principal_give_a_simple_name_or_an_error(rules, principal):
    try:
        user = PrincipalRules(rules, REALM).map_principal(principal)
    except (OptionError, AuthenticationError):
        return
    assert user
    assert not set(user) & set("/@")
