"""A learner of a wide table is the learner of an ordinary table with the same draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from oracles import position_episode
from rareswitch.core import task as task_module
from rareswitch.core.policy import fit
from rareswitch.core.recipe import COMMON
from rareswitch.statistics import history_of

STATES, ACTIONS, H = 6, 3, 4
VISITED = 3  # states that episodes reach
D = STATES * ACTIONS
MENUS = [s * ACTIONS + np.arange(ACTIONS) for s in range(STATES)]
EXPLORATIONS = [
    rs.Bonus(0.6),
    rs.Bonus(0.6, members=3),
    rs.Bonus(0.6, estimate=True),
    rs.Bonus(0.0),
    rs.Perturbation(0.5, draws=3),
    rs.Perturbation(0.5, draws=1, estimate=True),
    rs.Ensemble(4),
    rs.Ensemble(1),
    rs.Ensemble(4, estimate=False),
]


@pytest.fixture
def wide(monkeypatch):
    """Make every one-hot table wide."""
    monkeypatch.setattr(task_module, "WIDE", 0)


class SameDraws(rs.Recipe):
    """A recipe that draws for all positions of an ordinary table as a wide table draws."""

    def directions(self, version, horizon, dim):
        table = self.table(version, dim, np.arange(0), shared=False)
        if not table.ties:
            return None
        return np.stack([table.directions(h, np.arange(dim)) for h in range(horizon)], axis=-2)

    def perturbations(self, version, horizon, dim, *, shared=False):
        explores = self.exploration
        if not explores.draws:
            return None
        table = self.table(version, dim, np.arange(0), shared=shared)
        shape = explores.members, horizon, explores.draws, dim
        return explores.scale * np.array(
            [
                table.member(member).perturbations(h, draw, np.arange(dim))
                for member, h, draw in np.ndindex(shape[:-1])
            ]
        ).reshape(shape)


def episodes_of(seed, count):
    rng = np.random.default_rng(seed)
    return [position_episode(rng, horizon=H, states=VISITED, actions=ACTIONS) for _ in range(count)]


def histories(task, ridge, log, patch):
    """Return the histories of a log, narrow and wide."""
    narrow = history_of(task, ridge)
    with patch.context() as inside:
        inside.setattr(task_module, "WIDE", 0)
        wide = history_of(task, ridge)
    changed = [*log, *episodes_of(99, 2)]
    found = []
    for history in (narrow, wide):
        for k, episode in enumerate(log):
            history = history.absorb(episode)
            if k == 2:
                history = history.replace(episode, changed[-1])
            elif k == 4:
                history = history.fold().remove(episode)
        found.append(history)
    return found


def assert_same(wide, narrow):
    """Compare two policies in every state and at every stage, seen or not."""
    assert (wide.dim, wide.horizon, wide.members) == (narrow.dim, H, narrow.members)
    assert (wide.allocation, wide.stages) == (narrow.allocation, narrow.stages)
    every = np.stack(MENUS)
    for h in range(H):
        for rows in (np.arange(D)[::-1], MENUS[1], MENUS[5][1:]):
            np.testing.assert_allclose(
                wide.q_values(h, rows), narrow.q_values(h, rows), rtol=0.0, atol=1e-12
            )
            np.testing.assert_array_equal(wide.choices(h, rows), narrow.choices(h, rows))
            assert wide.value(h, rows) == pytest.approx(narrow.value(h, rows), abs=1e-12)
            np.testing.assert_array_equal(wide.propensities(h, rows), narrow.propensities(h, rows))
        np.testing.assert_array_equal(wide.choices(h, every), narrow.choices(h, every))
    steps = [(MENUS[h + 1], h % ACTIONS) for h in range(H)]
    assert wide.likelihood(steps) == narrow.likelihood(steps)
    offers = np.stack([every[[s, (s + 2) % STATES]] for s in range(STATES)])
    members = np.arange(STATES) % wide.members
    np.testing.assert_array_equal(
        wide.act_through(offers, members), narrow.act_through(offers, members)
    )
    for key in range(4):
        assert wide.draw(key).act(1, MENUS[4]) == narrow.draw(key).act(1, MENUS[4])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 9),
    exploration=st.sampled_from(EXPLORATIONS),
    stages=st.sampled_from(["own", "shared", "auto"]),
    ridge=st.sampled_from([0.02, 1.0]),
    end_reward=st.sampled_from([0.0, 0.3]),
    clip=st.booleans(),
)
def test_a_wide_fit_is_the_ordinary_fit_with_its_draws(
    seed, count, exploration, stages, ridge, end_reward, clip
):
    task = rs.Task(dim=D, horizon=H, one_hot=True, stages=stages, end_reward=end_reward)
    recipe = SameDraws(exploration=exploration, ridge=ridge, clip=clip, seed=(seed, 1))
    with pytest.MonkeyPatch.context() as patch:
        narrow, wide = histories(task, ridge, episodes_of(seed, count), patch)
    narrow, wide = narrow.fold(), wide.fold()
    found, wanted = (fit(history, recipe, version=2) for history in (wide, narrow))
    assert (found.table is None, wanted.table is None) == (False, True)
    assert len(found.table.positions) <= VISITED * ACTIONS
    assert found.table.common == (COMMON if found.stages == "shared" or stages == "shared" else 0.0)
    assert_same(found, wanted)
    again = rs.Policy.from_bytes(found.to_bytes())
    assert (again.to_bytes(), again.digest) == (found.to_bytes(), found.digest)
    assert_same(again, wanted)
    if stages != "auto":
        np.testing.assert_array_equal(wide.gram.logdet, narrow.gram.logdet)
        np.testing.assert_allclose(
            wide.step_sums.sum(axis=1), narrow.step_sums.sum(axis=1), atol=1e-12
        )
