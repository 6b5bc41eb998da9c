"""Numbers from JSON: nothing is converted, guessed or left out in silence."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rareswitch.campaigns.record.strict_json import numbers, read_json, rows_at_once

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def strictly(pairs):
    """Return a table, as Python reads it, of which no key comes twice."""
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_it_reads_what_python_reads(values, ascii_only, indent):
    text = json.dumps(values, ensure_ascii=ascii_only, indent=indent)
    wanted = json.loads(text, object_pairs_hook=strictly)
    given = text.encode(errors="surrogatepass") if ascii_only else text
    assert repr(read_json(given)) == repr(wanted)  # 1 is not 1.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(['"id"', '"a\\"b"', '":"', '"\\u0069d"', '"x\\\\"']),
            st.sampled_from(["", " ", "\n"]),
            st.sampled_from(["1", '"text"', '"te\\"xt"', "[1, 2]", '{"id":1}', '": "', "null"]),
        ),
        min_size=1,
    )
)
@example([('"id"', " ", "1"), ('"id"', "", "2")])
@example([('"id"', "", '"text"'), ('"id"', "", "2")])
@example([('"id"', "", "1"), ('"\\u0069d"', "", "2")])
def test_a_key_that_comes_twice_is_refused(members):
    text = "{" + ",".join(f"{key}{space}:{value}" for key, space, value in members) + "}"
    keys = [json.loads(key) for key, _, _ in members]
    if len(set(keys)) == len(keys):
        assert read_json(text) == json.loads(text)
    else:
        with pytest.raises(ValueError, match="is there twice"):
            read_json(text)


@pytest.mark.parametrize("text", ["NaN", '{"x":NaN}', '{"x":[-Infinity]}'])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="is no number"):
        read_json(text)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "01", b"\xff", '{"a" 1}', "{'a': 1}"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r"line 1|can't decode"):
        read_json(text)


@pytest.mark.parametrize("states", [[[[1, 0.5]], [[2.0, 3]]], [[[1, 0]], [[0, 1], [1, 1]]]])
def test_rows_of_several_states_come_end_to_end(states):
    found = rows_at_once(states)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.concatenate([numbers("x", s) for s in states]))


def test_positions_stay_whole():
    found = rows_at_once([[3, 1], [2]])
    assert (found.dtype, found.tolist()) == (np.int64, [3, 1, 2])


@pytest.mark.parametrize(
    "states",
    [
        [[[1.0, True]]],
        [[[1.0, "2"]]],
        [[[1.0, None]]],
        [[[1.0], [1.0, 2.0]]],
        [[[1.0]], [1]],
        [[True, 1]],
        [[0.5]],
        [[2**64, 1]],
        [[[10**400]]],
        [[[[1.0]]]],
        [[]],
        [{}],
        ["ab"],
        [[[1.0]], None],
    ],
)
def test_what_are_no_rows_is_left_to_be_explained(states):
    assert rows_at_once(states) is None
