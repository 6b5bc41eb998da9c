"""One text for one value, however it is written."""

import hashlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.campaigns.rulebook.rows import CHAINS, GENESIS, canonical, link_of

# Any of the 2⁶⁴ patterns of bits.
FLOATS = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("d", struct.pack("Q", bits))[0])
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | FLOATS.filter(lambda x: abs(x) < float("inf"))
    | st.text(st.characters(exclude_categories=["Cs"]))
)


@given(st.dictionaries(st.text("abcdefgh_", min_size=1), PLAIN))
def test_a_value_is_read_back_and_keeps_its_text(row):
    text = canonical(row)
    assert repr(json.loads(text)) == repr({name: row[name] for name in sorted(row)})
    assert canonical(json.loads(text)) == text
    assert canonical(dict(reversed(row.items()))) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_not_written(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"x": number})


def test_texts_are_written_as_they_are():
    row = {"many": 10**30, "claims": {"site": "é"}}
    assert canonical(row) == '{"claims":{"site":"é"},"many":' + "1" + "0" * 30 + "}"


CHAIN = st.sampled_from(sorted(CHAINS))


@given(
    CHAIN.flatmap(lambda chain: st.tuples(st.just(chain), *[PLAIN] * len(CHAINS[chain]._fields)))
)
def test_a_link_is_the_digest_of_the_link_before_and_of_the_row_in_canonical_form(told):
    chain, *values = told
    row = dict(zip(CHAINS[chain]._fields, values, strict=True))
    if "body" in row and row["body"] is not None:
        row["body"] = repr(row["body"]).encode()
    linked = {name: value for name, value in row.items() if name != "link"}
    for name in ("deviations", "salt"):
        if linked.get(name, 0) is None:
            del linked[name]
    if isinstance(row.get("body"), bytes):
        linked["body"] = hashlib.sha256(row["body"]).hexdigest()
    text = GENESIS + canonical(linked)
    assert link_of(chain, GENESIS, row) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1}])
def test_a_value_that_no_row_holds_has_no_link(value):
    row = dict.fromkeys(CHAINS["ledger"]._fields, "x") | {"reason": value}
    with pytest.raises((TypeError, ValueError), match="JSON"):
        link_of("ledger", GENESIS, row)


def test_a_link_depends_on_the_row_and_on_the_link_before():
    rows = [dict.fromkeys(CHAINS["ledger"]._fields, value) for value in (1, 2)]
    links = {link_of("ledger", before, row) for before in ("0" * 64, "1" * 64) for row in rows}
    assert len(links) == 4
