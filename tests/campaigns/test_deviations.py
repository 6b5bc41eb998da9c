"""Deviations: actions that the assigned member does not take, counted step by step."""

import numpy as np
import pytest

import rareswitch as rs
from campaign_builders import ROWS, chain, check_chains, create, played, report
from rareswitch.campaigns import Report, sites, verify
from rareswitch.campaigns.report import count_deviations
from rareswitch.core.exploration import Perturbation
from rareswitch.core.policy import Policy


def some_policy(*, members, one_hot, horizon=3, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    shape = (members,) if members > 1 else ()
    return Policy(
        weights=rng.integers(0, 3, (*shape, horizon, dim)) / 2,  # with ties
        directions=rng.normal(size=(*shape, horizon, dim)),
        allocation=7 if members > 1 else None,
        one_hot=one_hot,
    )


def some_report(number, *, one_hot, dim=4):
    """Return a report of up to three steps, with one to three actions in each state."""
    rng = np.random.default_rng([3, number])
    steps, cut_off = int(rng.integers(1, 4)), bool(rng.integers(2))
    counts = rng.integers(1, 4, steps + cut_off)
    offered = [
        rng.integers(0, dim, n) if one_hot else rng.integers(0, 3, (n, dim)) / 8 for n in counts
    ]
    actions = [int(rng.integers(n)) for n in counts[:steps]]
    return Report(
        id=f"p{number}",
        episode=rs.Episode(
            features=np.array([offered[t][a] for t, a in enumerate(actions)]),
            rewards=[0.5] * steps,
            next_features=offered[1:],
        ),
        first_features=offered[0],
        actions=actions,
    )


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("members", [1, 5])
def test_deviations_are_counted_by_hand(members, one_hot):
    policy = some_policy(members=members, one_hot=one_hot)
    reports = [some_report(number, one_hot=one_hot) for number in range(60)]
    by_hand = []
    for told in reports:
        member, count = policy.draw(told.id), 0
        offered = [told.first_features, *told.episode.next_features]
        for stage in range(len(told.episode)):
            count += member.act(stage, offered[stage]) != told.actions[stage]
        by_hand.append(count)
    assert {0, 1, 2} <= set(by_hand)
    members_of = [policy.allocate(told.id) for told in reports]
    assert count_deviations(policy, members_of, reports) == by_hand


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize(
    "exploration",
    [rs.Ensemble(members=6), rs.Bonus(1.0), rs.Bonus(1.0, members=3), Perturbation(1.0, draws=4)],
)
def test_whole_episodes_are_played_as_step_by_step(one_hot, exploration):
    task = rs.Task(dim=6, horizon=4, one_hot=one_hot)
    learner = rs.Learner(task, rs.EveryEpisode(), rs.Recipe(exploration=exploration))
    rng = np.random.default_rng(0)

    def offers():
        if one_hot:
            return rng.permuted(np.tile(np.arange(6), (4, 1)), axis=1)[:, :3]
        return rng.random((4, 3, 6)) / 6

    for _ in range(8):
        rows, taken = offers(), rng.integers(3, size=4)
        learner.observe(
            rs.Episode(
                features=rows[np.arange(4), taken],
                rewards=rng.random(4),
                next_features=list(rows[1:]),
            )
        )
    policy = learner.policy
    many = np.array([offers() for _ in range(50)])
    members = rng.integers(policy.members, size=50)
    for stages in (4, 2):
        played = policy.act_through(many[:, :stages], members)
        assert played.tolist() == [
            [policy.member(member).act(h, rows[h]) for h in range(stages)]
            for member, rows in zip(members.tolist(), many, strict=True)
        ]


def test_a_report_that_does_not_tell_has_no_number():
    policy, full = some_policy(members=5, one_hot=False), some_report(1, one_hot=False)
    silent = [
        Report(id="a", episode=full.episode, first_features=full.first_features),
        Report(id="b", episode=full.episode, actions=full.actions),
        Report(id="c", episode=full.episode),
    ]
    assert count_deviations(policy, [2, 2, 2], silent) == [None] * 3


def test_deviations_are_marked_when_an_episode_is_recorded(store):
    campaign = create(store)
    policy = campaign.policy()
    true = played(policy, "p0", 0)
    others = [tuple(policy.draw(f"p{k}").act(h, ROWS) for h in (0, 1)) for k in (1, 2)]
    one = report(1, actions=[others[0][0], (others[0][1] + 1) % 3])
    both = report(2, actions=[(a + 1) % 3 for a in others[1]])
    silent = Report(id="p3", episode=report(3).episode)
    answers = [campaign.record(told).deviations for told in (true, one, both, silent)]
    assert answers == [0, 1, 2, None]
    assert [row.deviations for row in chain(campaign, "episodes")] == answers
    assert [site["deviating"] for site in sites(campaign)] == [2]
    corrected = report(2, actions=others[1])
    assert campaign.correct(corrected, by="ana", reason="misread").deviations == 0
    assert campaign.withdraw("p1", by="ana", reason="consent").deviations is None
    assert [row.deviations for row in chain(campaign, "episodes")][4:] == [0, None]
    assert [site["deviating"] for site in sites(campaign)] == [0]
    check_chains(campaign)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": np.eye(4)[:2], "rewards": [0, 1], "next_features": [np.eye(4)]},
        {"features": np.eye(3), "rewards": [0, 1, 1], "next_features": [np.eye(3)] * 2},
        {"features": [0, 1], "rewards": [0, 1], "next_features": [[0, 1, 2]]},
    ],
)
def test_a_report_of_another_task_holds_up_no_other_of_its_commit(store, wrong):
    campaign = create(store)
    episode = rs.Episode(**wrong)
    first = np.arange(3) if episode.one_hot else np.eye(episode.dim)
    other = Report(id="bad", episode=episode, first_features=first, actions=range(len(episode)))
    answers = list(campaign.record_all([report(1), other, report(2)]))
    assert [getattr(one, "code", "recorded") for one in answers] == [
        "recorded", "refused", "recorded",
    ]  # fmt: skip
    together = list(create(store, name="other").record_all([report(1), report(2)]))
    assert [answers[0].deviations, answers[2].deviations] == [one.deviations for one in together]
    assert verify(campaign).ok
