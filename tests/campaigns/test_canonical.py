"""One text for one value, however it is written."""

import json
import struct
from math import nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.campaigns.record.canonical import canonical, canonical_row

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
# Any of the 2⁶⁴ patterns of bits, and decimals as people write them.
FLOATS = st.integers(0, 2**64 - 1).map(
    lambda bits: struct.unpack("d", struct.pack("Q", bits))[0]
) | st.builds(lambda digits, places: digits / 10**places, st.integers(), st.integers(0, 20))


@given(st.dictionaries(st.text("abcdefgh_", min_size=1), PLAIN))
def test_a_row_has_the_text_that_python_writes(row):
    assert canonical_row(row).decode() == canonical(row)


@given(FLOATS.filter(lambda x: abs(x) < float("inf")))
def test_numbers_are_written_as_python_writes_them(number):
    assert canonical_row({"x": number}).decode() == json.dumps({"x": number}).replace(" ", "")


@pytest.mark.parametrize("end", [1e-5, 1e-4, 1e15, 1e16, 1e17])
def test_so_they_are_where_exponents_begin(end):
    for number in (nextafter(end, 0.0), end, nextafter(end, 1e300), -end):
        assert canonical_row({"x": number}).decode() == f'{{"x":{number!r}}}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_not_written(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_row({"x": number})


def test_what_orjson_cannot_write_python_does():
    row = {"many": 10**30, "claims": {"site": "é"}}
    assert canonical_row(row).decode() == '{"claims":{"site":"é"},"many":' + "1" + "0" * 30 + "}"
