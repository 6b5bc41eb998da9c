"""Training, agents and evaluation with a wide table."""

import gymnasium
import numpy as np

import rareswitch as rs
from oracles import cheap
from rareswitch.core.wide_table import WideTable
from rareswitch.evaluation import compare
from rareswitch.features import OneHot
from rareswitch.gym import train
from rareswitch.trajectories import Trajectory


class Corridor(gymnasium.Env):
    """Walk from cell 0 to the last of few cells, in a space of very many."""

    observation_space = gymnasium.spaces.Discrete(60_000)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self._observation(), {}

    def step(self, action):
        self.cell = max(self.cell + (1 if action == 2 else -1), 0)
        done = self.cell == 4
        return self._observation(), float(done), done, False, {}

    def _observation(self):
        return self.cell * 14_999


def test_a_training_with_a_wide_table_learns_and_its_agent_survives_its_bytes(tmp_path):
    training = train(Corridor(), episodes=150, horizon=6, switches=8, seed=1, folder=tmp_path / "t")
    agent = training.agent
    assert agent.policy.dim == 180_000
    assert len(agent.policy.table.positions) == 12  # of four cells, the fifth ends an episode
    assert training.evaluate(episodes=20).mean == 1.0
    assert (tmp_path / "t" / "learner.bin").stat().st_size < 500_000
    agent.save(tmp_path / "agent.bin")
    again = rs.Agent.load(tmp_path / "agent.bin")
    assert again.policy.digest == agent.policy.digest
    for observation in (0, 14_999, 7, 59_999):
        episodes = again.begin("a"), agent.begin("a")
        for _ in range(6):
            first, second = (episode.act(observation) for episode in episodes)
            assert first == second
    arrays = agent.to_arrays()
    assert not arrays["weights"][:, -1].any()  # a recommended policy: other pairs have the level
    np.testing.assert_array_equal(arrays["table.positions"], agent.policy.table.positions)
    assert (int(arrays["table.dim"]), int(arrays["table.seed"])) == (
        180_000,
        agent.policy.table.seed,
    )


def written_out(policy):
    """Return a wide policy without offsets as an ordinary policy, with all its draws."""
    table, rows = policy.table, np.arange(policy.dim)
    stages = [table.at_rows(policy.stage(h), h, rows) for h in range(policy.horizon)]
    return rs.Policy(
        weights=np.stack([stage.weights for stage in stages], axis=-2),
        levels=policy.levels,
        directions=np.stack([table.directions(h, rows) for h in range(policy.horizon)], axis=-2),
        allocation=policy.allocation,
        one_hot=True,
    )


def test_a_log_gives_the_same_estimates_for_a_wide_policy():
    rng = np.random.default_rng(3)
    table = OneHot(states=8, actions=3)
    wide = rs.Policy(
        weights=rng.normal(size=(5, 4, 7)),
        levels=rng.uniform(size=(5, 4)),
        allocation=2,
        one_hot=True,
        table=WideTable(dim=24, positions=np.array([0, 1, 4, 9, 10, 23]), seed=5, members=5),
    )
    log = [
        Trajectory(
            observations=rng.integers(8, size=5),
            actions=rng.integers(3, size=4),
            rewards=rng.random(4),
            terminated=True,
            propensities=[1 / 3] * 4,
        )
        for _ in range(120)
    ]
    found, wanted = (compare(one, log, features=table) for one in (wide, written_out(wide)))
    assert str(found) == str(wanted)
    assert found.verdict == wanted.verdict
    gain = compare(wide, log, against=written_out(wide), features=table).gain
    assert (gain.low, gain.high) == (0.0, 0.0)


def test_a_log_of_a_wide_table_is_evaluated_at_the_cost_of_its_positions():
    rng = np.random.default_rng(4)
    table = OneHot(states=250_000, actions=4)
    agent = rs.Agent(
        policy=rs.Policy(
            weights=rng.normal(size=(32, 3, 1)),
            allocation=2,
            one_hot=True,
            table=WideTable(dim=10**6, positions=np.arange(0), seed=5, members=32),
        ),
        features=table,
    )
    table(0)  # which makes the positions of all states
    log = [
        Trajectory(
            observations=rng.integers(20, size=4) * 12_000,
            actions=rng.integers(4, size=3),
            rewards=rng.random(3),
            terminated=True,
            propensities=[0.25] * 3,
        )
        for _ in range(60)
    ]
    with cheap(megabytes=20.0, seconds=30.0):
        assert "gain" in compare(agent, log).verdict
