from dataclasses import dataclass

import pytest

import rareswitch as rs
from rareswitch.core.grids import MinimaxGrid
from rareswitch.core.schedule import Schedule
from rareswitch.planning.source import expression, imports


@dataclass(frozen=True)
class Patient:
    rule: Schedule
    wait: int = 10

    def due(self, clock):
        return False


class Hidden:
    def due(self, clock):
        return False


@pytest.mark.parametrize(
    "thing",
    [
        rs.EveryEpisode(),
        rs.TotalGrowth(eta=2.0),
        rs.Capped(rs.UniformGrid(episodes=9, batches=3), switches=1),
        rs.Capped(MinimaxGrid(episodes=99, batches=3), switches=1),
        rs.EpisodeGrid(starts=(1, 4)),
        Patient(rs.Capped(Patient(rs.EveryEpisode(), wait=3), 2)),
        rs.Perturbation(0.5, draws=3),
    ],
    ids=repr,
)
def test_what_is_pasted_makes_the_thing_again(thing):
    scope = {}
    exec("\n".join(["import rareswitch as rs", *imports(thing)]), scope)
    assert eval(expression(thing), scope) == thing


def test_only_what_rs_does_not_have_is_imported():
    assert imports(rs.Capped(rs.EveryEpisode(), 3)) == set()
    assert imports(Hidden()) == {f"from {__name__} import Hidden"}


def test_arguments_that_are_not_known_are_left_to_be_filled_in():
    assert expression(Hidden()) == "Hidden(…)"
