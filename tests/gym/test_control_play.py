"""A control and a floor in environments: who plays, what is logged, what is earned, agents."""

import gymnasium
import numpy as np
import pytest

import rareswitch as rs
from rareswitch.core.control import Control
from rareswitch.evaluation import conditional_propensities
from rareswitch.features import OneHot
from rareswitch.gym import play, train
from rareswitch.gym.exact import FiniteModel

HORIZON = 3


class Corridor:
    """Three states; action 2 goes on and earns, others stay. `masked` forbids action 0."""

    def __init__(self, masked=False, steps=HORIZON):
        self.masked, self.steps = masked, steps

    def _info(self):
        return {"action_mask": np.array([False, True, True])} if self.masked else {}

    def reset(self, *, seed=None, options=None):
        self.state, self.t = 0, 0
        return 0, self._info()

    def step(self, action):
        self.t += 1
        reward = float(action == 2)
        self.state = min(self.state + (action == 2), 2)
        return self.state, reward, False, self.t >= self.steps, self._info()


TABLE = OneHot(states=3, actions=3)


def learner_of(recipe, episodes=60):
    task = rs.Task(dim=9, horizon=HORIZON, episodes=episodes, one_hot=True)
    return rs.Learner(task, rs.SpreadBudget(switches=4), recipe)


RECIPES = {
    "action": rs.Recipe(control=Control(1, share=0.3), floor=0.2),
    "policy": rs.Recipe(
        control=Control(rs.Policy(weights=[[0.0, 0.0, 1.0] * 3] * 3, one_hot=True), share=0.4)
    ),
    "burn-in": rs.Recipe(burn_in=True),
}


@pytest.mark.parametrize("name", RECIPES)
def test_the_players_drawn_play_and_their_probabilities_are_logged(name):
    learner = learner_of(RECIPES[name])
    policies, roles = {}, set()
    for one in play(learner, Corridor(), TABLE, episodes=60):
        policies.setdefault(one.version, one.playing.actor.policy)
        policy, log = policies[one.version], one.trajectory
        player = policy.draw(one.number)
        roles.add(player.role)
        assert one.member == policy.allocate(one.number)
        wanted = [player.act(h, TABLE(s)) for h, s in enumerate(log.observations[:-1])]
        assert log.actions.tolist() == wanted
        found = conditional_propensities(policy, log, TABLE)
        np.testing.assert_allclose(log.propensities, found, rtol=1e-12)
    assert len(roles) > 1


def test_an_action_as_control_needs_all_actions():
    recipe = rs.Recipe(control=Control(1, share=0.9))
    with pytest.raises(ValueError, match="control must be a policy if actions are masked"):
        list(play(learner_of(recipe), Corridor(masked=True), TABLE, episodes=30))
    floor = learner_of(rs.Recipe(floor=0.5))
    for one in play(floor, Corridor(masked=True), TABLE, episodes=30):
        assert 0 not in one.trajectory.actions


def test_an_action_as_control_is_refused_at_the_first_mask_whoever_plays():
    learner = learner_of(rs.Recipe(control=Control(1, share=1e-9)))
    with pytest.raises(ValueError, match=r"got action 1: give .* \(episode 1, step 0\)"):
        list(play(learner, Corridor(masked=True), TABLE, episodes=1))


@pytest.mark.parametrize("name", RECIPES)
def test_the_exact_return_counts_every_player_by_its_share(name):
    rng = np.random.default_rng(0)
    model = FiniteModel(
        probabilities=np.ones((3, 3, 1)),
        next_states=rng.integers(0, 3, (3, 3, 1)),
        rewards=rng.random((3, 3, 1)),
        ended=np.zeros((3, 3, 1), bool),
        initial=np.array([1.0, 0.0, 0.0]),
    )
    policy = learner_of(RECIPES[name]).policy
    by_hand = 0.0
    for player, tickets in enumerate(policy.tickets):
        alone, value = policy.alone(player), np.zeros(3)
        for h in reversed(range(HORIZON)):
            q_values = model.rewards[..., 0] + value[model.next_states[..., 0]]
            value = np.array([alone.propensities(h, TABLE(s)) @ q_values[s] for s in range(3)])
        by_hand += tickets / policy.members * value[0]
    assert model.policy_return(policy, TABLE) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("name", RECIPES)
def test_an_agent_plays_the_players_of_its_policy(name, tmp_path):
    policy = learner_of(RECIPES[name]).policy
    agent = rs.Agent(policy=policy, features=TABLE)
    agent.save(tmp_path / "agent.bin")
    again = rs.Agent.load(tmp_path / "agent.bin")
    for key in range(40):
        player, acting = policy.draw(key), again.begin(key)
        assert acting.role == player.role
        assert [acting.act(s) for s in (0, 2, 1)] == [
            player.act(h, TABLE(s)) for h, s in enumerate((0, 2, 1))
        ]
        assert again.predict(1, h=1, key=key) == player.act(1, TABLE(1))
    arrays = agent.to_arrays()
    assert (arrays.get("floor", 0.0), "control.share" in arrays) == (
        policy.floor, policy.control is not None,
    )  # fmt: skip
    if name == "policy":
        np.testing.assert_array_equal(arrays["control.weights"], policy.controlling.weights)


def test_the_floor_of_an_agent_goes_on_at_random_beyond_the_horizon():
    policy = learner_of(rs.Recipe(burn_in=True)).policy
    acting = rs.Agent(policy=policy, features=TABLE).begin("long", steps=200)
    counts = np.bincount([acting.act(0) for _ in range(200)], minlength=3)
    assert counts.min() > 30


def test_a_masked_agent_refuses_an_action_as_control():
    policy = learner_of(rs.Recipe(control=Control(1, share=1.0))).policy
    agent = rs.Agent(policy=policy, features=TABLE)
    assert agent.begin(0).act(0) == 1
    assert agent.begin(0).act(0, mask=[True] * 3) == 1
    with pytest.raises(ValueError, match="control must be a policy if actions are masked"):
        agent.begin(0).act(0, mask=[False, True, True])


def test_a_control_that_cannot_play_leaves_a_folder_to_the_next_command(tmp_path):
    class Masked(gymnasium.Wrapper):
        def __init__(self, masked_after):
            super().__init__(gymnasium.make("FrozenLake-v1"))
            self.left = masked_after

        def reset(self, **given):
            self.left -= 1
            state, info = self.env.reset(**given)
            mask = np.array([self.left >= 0, True, True, True])
            return state, info | {"action_mask": mask}

    def training(masked_after, recipe):
        return train(
            lambda: Masked(masked_after), episodes=40, switches=3, horizon=8, rewards=(0.0, 1.0),
            recipe=recipe, folder=tmp_path / "lake", fresh=0,
        )  # fmt: skip

    with pytest.raises(ValueError, match=r"control must be an action from 0 to 3, .* action 4"):
        training(0, rs.Recipe(control=Control(4, share=0.2)))
    assert not (tmp_path / "lake").exists()
    one = rs.Recipe(control=Control(1, share=0.2))
    with pytest.raises(
        ValueError, match="control must be a policy if actions are masked"
    ) as caught:
        training(0, one)
    assert caught.value.__notes__ == [f"no episode is recorded in {tmp_path / 'lake'}"]
    with pytest.raises(
        ValueError, match="control must be a policy if actions are masked"
    ) as caught:
        training(12, rs.Recipe(control=Control(2, share=0.2)))
    (note,) = caught.value.__notes__
    assert note.startswith("12 of 40 episodes are kept in ")
    assert note.endswith("lake: choose another folder for another control")
    with pytest.raises(ValueError, match="folder must have the same settings"):
        training(99, rs.Recipe())


def test_a_training_takes_a_control_and_resumes(tmp_path):
    recipe = rs.Recipe(control=Control(0, share=0.3), floor=0.1)
    whole = train("FrozenLake-v1", episodes=40, switches=3, horizon=8, recipe=recipe)
    policy = whole.learner.policy
    assert (policy.control, policy.floor) == (recipe.control, 0.1)
    roles = {policy.split.role(one.member) for one in whole.log}
    assert roles == {"learned", "control", "floor"}
