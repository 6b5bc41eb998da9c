import numpy as np
import pytest

from oracles import clock_at
from rareswitch.core.ledger import Deployment, Ledger


def make():
    ledger = Ledger()
    ledger.deploy(episode=1, logdet=np.zeros(2), trace=np.ones(2), digest="a")
    ledger.deploy(episode=4, logdet=np.array([0.5, 1.0]), trace=np.array([2.0, 3.0]), digest="b")
    return ledger


def test_versions_count_from_one():
    ledger = make()
    third = ledger.deploy(episode=4, logdet=np.ones(2), trace=np.ones(2))
    assert isinstance(third, Deployment)
    assert third is ledger[-1]
    assert third.digest == ""
    assert [(d.version, d.episode) for d in ledger] == [(1, 1), (2, 4), (3, 4)]
    assert len(ledger) == 3
    assert ledger[1:] == list(ledger)[1:]


def test_a_clock_shows_the_policy_in_force():
    ledger = make()
    clock = ledger.clock(episode=9, logdet=np.array([0.75, 2.0]))
    expected = clock_at(
        [0.25, 1.0], episode=9, deployed=4, deployments=2, logdet=[0.5, 1.0], trace=[2.0, 3.0]
    )
    assert clock == expected
    assert clock.growth.tolist() == [0.25, 1.0]


def test_ledgers_and_deployments_compare_and_tell_what_they_are():
    ledger, same = make(), make()
    assert ledger == same
    assert (ledger != same) is False
    assert ledger[0] == same[0]
    assert len({*ledger, *same}) == 2
    assert ledger[0] != ledger[1]
    same.deploy(episode=9, logdet=np.zeros(2), trace=np.ones(2))
    assert ledger != same
    assert ledger != [1]
    assert ledger[0] != "a"
    other = Ledger()
    other.deploy(episode=1, logdet=np.full(2, 0.5), trace=np.ones(2), digest="a")
    assert other[0] != ledger[0]
    assert repr(ledger) == "Ledger(2 deployments, before episodes [1, 4])"
    assert repr(ledger[1]).startswith("Deployment(version=2, episode=4, ")
    with pytest.raises(TypeError, match="unhashable"):
        hash(ledger)


def test_a_deployment_is_frozen():
    with pytest.raises(AttributeError):
        make()[0].episode = 3
