"""What a rule watches says when it is due, and by how much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch import (
    AdaptiveBudget,
    Capped,
    DeterminantGrowth,
    EpisodeGrid,
    EveryEpisode,
    SpreadBudget,
    TotalGrowth,
    UniformGrid,
)
from rareswitch.core.ledger import Ledger
from rareswitch.core.schedule import triggers_of

RULES = (
    EveryEpisode(),
    UniformGrid(episodes=60, batches=5),
    EpisodeGrid(starts=(1, 7, 30)),
    DeterminantGrowth(eta=2.0),
    TotalGrowth(eta=3.0),
    AdaptiveBudget(switches=2, episodes=60, dim=2),
    SpreadBudget(switches=2, episodes=60, dim=2),
    Capped(DeterminantGrowth(eta=1.2), switches=1),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(
    deployed=st.lists(st.integers(1, 30), max_size=3),
    waited=st.integers(0, 30),
    growth=st.lists(st.floats(0.0, 3.0), min_size=2, max_size=2),
)
def test_a_rule_is_due_exactly_when_a_trigger_is_reached(rule, deployed, waited, growth):
    ledger = Ledger()
    for episode in [1, *sorted(deployed)]:
        ledger.deploy(episode=episode, logdet=np.zeros(2), trace=np.full(2, 2.0))
    clock = ledger.clock(episode=ledger[-1].episode + waited, logdet=np.array(growth))
    triggers = triggers_of(rule, clock)
    assert rule.due(clock) == any(trigger.reached for trigger in triggers)
    for trigger in triggers:
        assert trigger.reached == (trigger.margin >= 0) or abs(trigger.margin) < 1e-9


def test_a_rule_that_does_not_tell_says_only_whether_it_is_due():
    class Own:
        def due(self, clock):
            return clock.episode > 3

    ledger = Ledger()
    ledger.deploy(episode=1, logdet=np.zeros(1), trace=np.ones(1))
    (trigger,) = triggers_of(Own(), ledger.clock(episode=4, logdet=np.zeros(1)))
    assert trigger == ("due", 1.0, 1.0, True)
