"""Observers of small maps for tests, and reports compared to the last byte."""

import rareswitch as rs
from rareswitch.campaigns.observations import Observer, packed_features
from rareswitch.features import ActionBlocks, OneHot, Polynomial, Scaling, UnitNorm
from rareswitch.features.spaces import Digits

NAMES = ("low", "middle", "high")
SECRET = "Emil Novak"
SCALED = Scaling.between([18.0, 0.0], [98.0, 4.0])


def unit(basis, actions=3):
    """Return the blocks of a basis over its bound."""
    return ActionBlocks(basis.then(UnitNorm(inputs=basis.size, bound=basis.norm)), actions=actions)


DENSE = unit(SCALED.then(Polynomial(inputs=2, degree=2)))
TABLE = OneHot(states=5, actions=3, space=Digits(counts=(5,), starts=(1,)))
GRID = OneHot(states=6, actions=3, space=Digits(counts=(2, 3), starts=(0, 1)))


def observer(
    features=DENSE, columns=("age", "severity"), *, horizon=1, actions=NAMES, subgroups=None, **task
):
    terms, data = packed_features(features, columns)
    sizes = {"dim": features.dim, "horizon": horizon, "episodes": 30, "one_hot": features.one_hot}
    given = {"features": terms, "data": data, "actions": actions, "subgroups": subgroups}
    return Observer(**given, task=rs.Task(**sizes | task))


def same(one, other):
    assert one.digest == other.digest
    assert one.body == other.body
    assert one.participant == other.participant
    return True
