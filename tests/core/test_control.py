"""A control and a floor: shares, draws, probabilities, bytes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import rareswitch as rs
from rareswitch.core.control import FLOOR_BITS, Control, Player, Split, floor_action, floor_draw
from rareswitch.core.policy import Policy, member_of
from rareswitch.support import codec

H, D = 2, 3


def policy_of(seed=0, *, members=4, one_hot=False, **changes):
    rng = np.random.default_rng(seed)
    shape = (members, H, D) if members > 1 else (H, D)
    fields = {
        "weights": rng.normal(size=shape),
        "allocation": 11 if members > 1 else None,
        "clip": False,
        "one_hot": one_hot,
    }
    return Policy(**fields | changes)


def rows_of(seed, actions):
    return np.random.default_rng([5, seed]).normal(size=(actions, D))


CONTROLS = {
    "none": None,
    "action": Control(1, share=0.3),
    "policy": Control(policy_of(1, members=1), share=0.3),
    "mixture": Control(policy_of(2, members=3), share=0.25),
}
POLICIES = {
    f"{name}, floor {floor}, {members} members": policy_of(
        members=members, control=control, floor=floor, allocation=11
    )
    for (name, control), floor, members in product(CONTROLS.items(), (0.0, 0.2), (1, 4))
    if control is not None or floor
} | {"burn-in": policy_of(floor=1.0), "all control": policy_of(control=Control(0, share=1.0))}


def players_of(policy):
    """Return (probability, function of stage and rows to probabilities) of each player, by hand."""

    def greedy(member):
        return lambda h, rows: np.eye(len(rows))[member.act(h, rows)]

    share = 0.0 if policy.control is None else policy.control.share
    learned = 1.0 - share - policy.floor
    found = [(learned / policy.members, greedy(policy.member(m))) for m in range(policy.members)]
    if policy.control is not None and isinstance(policy.control.plays, int):
        place = policy.control.plays
        found.append((share, lambda h, rows: np.eye(len(rows))[place]))
    elif policy.control is not None:
        other = Policy.from_bytes(policy.control.plays)
        found += [(share / other.members, greedy(other.member(m))) for m in range(other.members)]
    if policy.floor:
        found.append((policy.floor, lambda h, rows: np.full(len(rows), 1.0 / len(rows))))
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_propensities_are_those_of_all_players_and_add_up_to_one(name):
    policy = POLICIES[name]
    for seed, actions in product(range(6), (2, 3, 5)):
        rows, h = rows_of(seed, actions), seed % H
        by_hand = sum(share * acts(h, rows) for share, acts in players_of(policy))
        found = policy.propensities(h, rows)
        np.testing.assert_allclose(found, by_hand, atol=1e-12)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        assert found.min() >= policy.floor / actions - 1e-15
    many = np.stack([rows_of(seed, 3) for seed in range(5)])
    each = [policy.propensities(1, rows) for rows in many]
    np.testing.assert_allclose(policy.propensities_in(1, many), each, atol=1e-15)


@pytest.mark.parametrize("name", POLICIES)
def test_the_likelihood_is_that_of_whole_episodes(name):
    policy = POLICIES[name]
    first, second = rows_of(1, 2), rows_of(2, 3)
    total = 0.0
    for a, b in product(range(2), range(3)):
        by_hand = sum(
            share * acts(0, first)[a] * acts(1, second)[b] for share, acts in players_of(policy)
        )
        found = policy.likelihood([(first, a), (second, b)])
        assert found == pytest.approx(by_hand, abs=1e-12)
        chances = policy.chances(0, first, a) * policy.chances(1, second, b)
        assert chances @ policy.tickets / policy.members == pytest.approx(found, abs=1e-12)
        total += found
    assert total == pytest.approx(1.0, abs=1e-12)
    assert policy.tickets.sum() == pytest.approx(policy.members)
    assert len(policy.tickets) == policy.players


@pytest.mark.parametrize("name", POLICIES)
def test_draws_have_the_shares_and_act_with_the_propensities(name):
    policy, keys = POLICIES[name], 20_000
    numbers = [policy.allocate(f"p{key}") for key in range(keys)]
    counts = np.bincount(numbers, minlength=policy.players)
    expected = keys * policy.tickets / policy.members
    here = expected > 0
    assert counts[~here].sum() == 0
    statistic = ((counts - expected)[here] ** 2 / expected[here]).sum()
    assert statistic < chi2.ppf(1 - 1e-5, max(int(here.sum()) - 1, 1))
    rows, few = rows_of(4, 3), 6_000
    taken = np.bincount([policy.draw(key).act(1, rows) for key in range(few)], minlength=3)
    propensities = policy.propensities(1, rows)
    wanted = few * propensities
    assert taken[wanted == 0].sum() == 0
    statistic = ((taken - wanted)[wanted > 0] ** 2 / wanted[wanted > 0]).sum()
    assert statistic < chi2.ppf(1 - 1e-5, 2)


@pytest.mark.parametrize("name", POLICIES)
def test_a_draw_tells_its_role_and_is_the_player_of_its_number(name):
    policy, rows = POLICIES[name], rows_of(3, 4)
    for key in range(200):
        number = policy.allocate(key)
        drawn, again = policy.draw(key), policy.player(number, key)
        assert drawn.role == policy.split.role(number)
        assert [drawn.act(h, rows) for h in range(H)] == [again.act(h, rows) for h in range(H)]
        assert drawn.horizon == H
        alone = policy.alone(number)
        assert alone.propensities(0, rows)[drawn.act(0, rows)] > 0.0
        if drawn.role == "learned":
            assert alone.digest == policy.member(number).digest
    with pytest.raises(ValueError, match=r"acts through the member drawn"):
        policy.act(0, rows)


def test_the_steps_of_the_floor_are_independent_and_uniform():
    policy, keys = policy_of(floor=1.0), 9_000
    rows = rows_of(0, 3)
    pairs = np.zeros((3, 3))
    for key in range(keys):
        player = policy.draw(key)
        assert player.role == "floor"
        pairs[player.act(0, rows), player.act(1, rows)] += 1
    statistic = ((pairs - keys / 9) ** 2 / (keys / 9)).sum()
    assert statistic < chi2.ppf(1 - 1e-5, 8)
    # beyond the horizon, at a stage that comes again, steps differ too
    player = policy.draw("long")
    assert len({player.act(0, rows, step) for step in range(60)}) == 3


def test_the_draw_of_the_floor_is_documented_and_never_out_of_range():
    assert [floor_draw(7, "ada", h) for h in range(3)] == [
        floor_draw(7, "ada", h) for h in range(3)
    ]
    assert floor_draw(7, 3, 0) == floor_draw(7, "3", 0)
    assert floor_draw(7, "3", 0) != floor_draw(7, "3", 1) != floor_draw(8, "3", 1)
    for offered in (1, 2, 3, 1000, 2**15):
        assert floor_action(0, offered) == 0
        assert floor_action(2**FLOOR_BITS - 1, offered) == offered - 1
    with pytest.raises(ValueError, match="number of rows that the floor chooses from"):
        floor_action(0, 2**15 + 1)


@given(
    members=st.integers(1, 50),
    control=st.floats(0.0, 1.0),
    controls=st.integers(1, 5),
    rest=st.floats(0.0, 1.0),
    key=st.text(min_size=1, max_size=8),
)
@settings(max_examples=300)
def test_every_draw_is_a_player_with_a_share(members, control, controls, rest, key):
    floor = (1.0 - control) * rest
    split = Split(members, 5, control, controls if control else 0, floor)
    number = split.draw(key)
    assert 0 <= number < split.players
    assert split.tickets[number] > 0 or split.learned < 1e-15
    assert sum(split.tickets) == pytest.approx(members)


def test_without_control_and_floor_nothing_changes():
    plain = policy_of()
    assert plain.split.even
    assert plain.tickets.tolist() == [1.0] * 4
    for key in range(100):
        assert plain.allocate(key) == member_of(11, key, 4)
        assert plain.draw(key).digest == plain.member(plain.allocate(key)).digest
        assert plain.draw(key).role == "learned"
    parts = codec.unpack("policy", plain.to_bytes())
    assert set(parts.meta) == {"beta", "clip", "allocation"}


@pytest.mark.parametrize("name", POLICIES)
def test_bytes_hold_the_control_and_the_floor(name):
    policy = POLICIES[name]
    again = Policy.from_bytes(policy.to_bytes())
    assert again.digest == policy.digest
    assert (again.control, again.floor, again.split) == (
        policy.control, policy.floor, policy.split,
    )  # fmt: skip
    plain = policy_of(members=policy.members, allocation=11 if policy.members > 1 else None)
    assert policy.digest != plain.digest


def forged(policy, meta=None, arrays=None, without=()):
    parts = codec.unpack("policy", policy.to_bytes())
    kept = {name: value for name, value in parts.meta.items() if name not in without}
    return codec.pack("policy", kept | (meta or {}), parts.arrays | (arrays or {}))


WITH = policy_of(control=Control(1, share=0.3), floor=0.2)
BYTES = np.frombuffer(policy_of(1, members=1).to_bytes(), np.uint8)
NESTED = np.frombuffer(WITH.to_bytes(), np.uint8)
OTHER = np.frombuffer(Policy(weights=np.zeros((H, D + 1))).to_bytes(), np.uint8)


@pytest.mark.parametrize(
    ("meta", "arrays", "without"),
    [
        ({"floor": 0.8}, {}, ()),
        ({"floor": -0.1}, {}, ()),
        ({"floor": 0.0}, {}, ()),
        ({"floor": True}, {}, ()),
        ({"floor": "0.1"}, {}, ()),
        ({"control": {"share": 0.0, "action": 1}}, {}, ()),
        ({"control": {"share": 1.1, "action": 1}}, {}, ()),
        ({"control": {"share": 0.3, "action": -1}}, {}, ()),
        ({"control": {"share": 0.3, "action": True}}, {}, ()),
        ({"control": {"share": 0.3, "action": 1.5}}, {}, ()),
        ({"control": {"share": 0.3}}, {}, ()),
        ({"control": {"share": 0.3, "action": 1}}, {"control": BYTES}, ()),
        ({"control": {"share": 0.3, "more": 1, "action": 1}}, {}, ()),
        ({"control": {"action": 1}}, {}, ()),
        ({"control": 0.3}, {}, ()),
        ({"control": {"share": 0.3}}, {"control": BYTES[:-1]}, ()),
        ({"control": {"share": 0.3}}, {"control": NESTED}, ()),
        ({"control": {"share": 0.3}}, {"control": OTHER}, ()),
        ({"control": {"share": 0.3}}, {"control": BYTES.astype(np.float64)}, ()),
        ({}, {"control": BYTES}, ("control",)),
        ({}, {}, ("allocation",)),
    ],
)
def test_hostile_bytes_are_refused(meta, arrays, without):
    with pytest.raises(ValueError, match="data must be a"):
        Policy.from_bytes(forged(WITH, meta, arrays, without))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Control(0, share=0.0), ValueError, "share must be"),
        (lambda: Control(0, share=1.5), ValueError, "share must be"),
        (lambda: Control(-1, share=0.5), ValueError, "plays must be"),
        (lambda: Control(True, share=0.5), TypeError, "plays must be the place of an action"),
        (lambda: Control("usual", share=0.5), TypeError, "plays must be the place of an action"),
        (lambda: Control(b"x", share=0.5), ValueError, "data must be the bytes"),
        (lambda: policy_of(floor=1.5), ValueError, "floor must be"),
        (lambda: policy_of(floor=np.nan), ValueError, "floor must be"),
        (lambda: policy_of(control=0), TypeError, "control must be a Control"),
        (
            lambda: policy_of(control=Control(0, share=0.7), floor=0.4),
            ValueError,
            "floor must be at most 1 minus the control's share, 0.3",
        ),
        (
            lambda: policy_of(members=1, floor=0.1),
            ValueError,
            "allocation must be given for a control or a floor",
        ),
        (
            lambda: policy_of(control=Control(Policy(weights=[[0.0] * 4] * H), share=0.1)),
            ValueError,
            "control must have horizon 2, dim 3 and one_hot = False; got 2, 4 and False",
        ),
        (
            lambda: policy_of(control=Control(WITH, share=0.1)),
            ValueError,
            "without control and floor",
        ),
    ],
)
def test_impossible_shares_and_controls_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_an_action_that_is_not_offered_is_refused():
    policy = policy_of(control=Control(2, share=0.5))
    key = next(k for k in range(99) if policy.draw(k).role == "control")
    assert policy.draw(key).act(0, rows_of(0, 3)) == 2
    few = rows_of(0, 2)
    for ask in (
        lambda: policy.draw(key).act(0, few),
        lambda: policy.propensities(0, few),
        lambda: policy.likelihood([(few, 0)]),
    ):
        with pytest.raises(ValueError, match="must have a row for action 2, which the control"):
            ask()
    with pytest.raises(ValueError, match="at least one row"):
        policy.draw(key).act(0, few[:0])
    with pytest.raises(ValueError, match="h must be"):
        policy.draw(key).act(H, rows_of(0, 3))


def test_the_public_names():
    assert rs.Control is Control
    assert repr(Control(3, share=0.5)) == "Control(plays=3, share=0.5)"
    assert "<policy " in repr(Control(policy_of(1, members=1), share=0.5))
    assert Control(policy_of(1), share=0.5) == Control(policy_of(1).to_bytes(), share=0.5)
    assert isinstance(policy_of(floor=1.0).draw(1), Player)


# Recipes and learners


def arms_learner(recipe, *, episodes=60, rule=None):
    task = rs.Task(dim=2, horizon=1, episodes=episodes)
    return rs.Learner(task, rule or rs.SpreadBudget(switches=3), recipe)


def play(learner, episodes):
    arms = np.eye(2)
    for _ in range(episodes):
        arm = learner.policy.draw(learner.episodes + 1).act(0, arms)
        reward = float(arm) * 0.5
        learner.observe(rs.Episode(features=arms[[arm]], rewards=[reward], next_features=[]))


@pytest.mark.parametrize("exploration", [rs.Ensemble(members=4), rs.Bonus(1.0)])
def test_every_version_has_the_shares_of_the_recipe(exploration):
    recipe = rs.Recipe(
        exploration=exploration, control=Control(0, share=0.2), floor=0.1, burn_in=True
    )
    learner = arms_learner(recipe)
    assert (learner.policy.control, learner.policy.floor) == (None, 1.0)
    play(learner, 60)
    assert len(learner.ledger) == 4
    policy = learner.policy
    assert (policy.control, policy.floor) == (recipe.control, recipe.floor)
    assert policy.propensities(0, np.eye(2)).sum() == pytest.approx(1.0)
    assert learner.recommend().split.even
    assert learner.recommend().act(0, np.eye(2)) == 1


def test_the_learned_part_is_that_of_a_recipe_without_shares():
    """The control and the floor change who plays, and not what is fitted."""
    episodes = [
        rs.Episode(features=np.eye(2)[[k % 2]], rewards=[0.25 * (k % 2)], next_features=[])
        for k in range(30)
    ]
    plain, other = arms_learner(rs.Recipe()), arms_learner(
        rs.Recipe(control=Control(0, share=0.2), floor=0.1)
    )  # fmt: skip
    for learner in (plain, other):
        learner.absorb(*episodes)
    one, two = plain.fit(), other.fit()
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.allocation == two.allocation
    assert one.digest != two.digest


@pytest.mark.parametrize("control", [Control(0, share=0.2), None])
def test_a_snapshot_goes_on_byte_for_byte(control):
    recipe = rs.Recipe(control=control, floor=0.1, burn_in=True)
    learner = arms_learner(recipe)
    play(learner, 25)
    again = rs.Learner.restore(learner.snapshot())
    assert again.recipe == recipe
    for one in (learner, again):
        play(one, 35)
    assert again.snapshot() == learner.snapshot()
    assert again.policy.digest == learner.policy.digest


def test_a_snapshot_holds_a_control_that_is_a_policy():
    usual = rs.Policy(weights=[[1.0, 0.0]])
    recipe = rs.Recipe(control=Control(usual, share=0.2))
    learner = arms_learner(recipe)
    again = rs.Learner.restore(learner.snapshot())
    assert again.recipe == recipe
    assert again.policy.control.digest == usual.digest


def test_a_learner_refuses_a_control_of_other_sizes():
    wrong = rs.Policy(weights=[[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="control must have horizon 1, dim 2"):
        arms_learner(rs.Recipe(control=Control(wrong, share=0.2)))
    with pytest.raises(ValueError, match="floor must be at most"):
        rs.Recipe(control=Control(0, share=0.8), floor=0.3)
    with pytest.raises(TypeError, match="burn_in must be"):
        rs.Recipe(burn_in=1)


def test_a_recipe_says_only_what_is_set():
    assert "floor" not in repr(rs.Recipe())
    assert "floor=0.1, burn_in=True" in repr(rs.Recipe(floor=0.1, burn_in=True))
    assert rs.Recipe().learned_only
    assert not rs.Recipe(burn_in=True).learned_only
