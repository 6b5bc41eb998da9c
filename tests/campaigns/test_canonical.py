"""One text for one value, however it is written."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.campaigns.rulebook.rows import canonical, linked

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


def test_a_link_depends_on_the_row_and_on_the_link_before():
    links = {linked(before, {"seq": seq}) for before in ("0" * 64, "1" * 64) for seq in (1, 2)}
    assert len(links) == 4
