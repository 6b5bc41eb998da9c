"""A recommender: the clicks of a visit, compared with policies that know people's tastes.

    python examples/recommender.py --picture recommender.png

The learner sees the interests of a person and learns what to show. The script compares it with
random items, always the same item, always the item most likely to be clicked (which requires the
chances), and a search ahead that also knows how interests move.
"""

import argparse
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from recommender_world import ITEMS, TOPICS, VISIT, Recommender, directions

from rareswitch.gym import train

KEPT = 200  # width of the beam search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--switches", type=int, help="a twentieth of the episodes, at most 59")
    parser.add_argument("--features", default="linear", help="linear, polynomial, fourier, default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to write a picture of the training")
    parser.add_argument("--quick", action="store_true", help="100 episodes, and fewer people")
    arguments = parser.parse_args()
    world = gymnasium.make("Recommender-v0")
    people = 100 if arguments.quick else 1000

    training = train(
        world,
        episodes=100 if arguments.quick else arguments.episodes,
        switches=arguments.switches,
        features=arguments.features,
        seed=arguments.seed,
    )
    setting, totals = training.setting, training.totals
    fresh = training.evaluate(people)
    half = len(totals) // 2
    print(f"features: {setting.features.name}, d = {setting.features.dim}\n")
    print(f"{'clicks of a visit':38}switches")
    known = references(world.unwrapped, people)
    for name, clicks in known.items():
        print(f"{name:30}{clicks:6.2f}")
    print(f"{'while learning':30}{totals.mean():6.2f}{len(training.switch_episodes):10}")
    print(f"{'second half of it':30}{totals[half:].mean():6.2f}")
    print(f"{'recommended, fresh':30}{fresh.mean:6.2f}  [{fresh.low:.2f}, {fresh.high:.2f}]")

    if arguments.picture is not None:
        from rareswitch.gym.picture import draw_training

        figure = draw_training(training, title="Clicks of a visit", fresh=fresh)
        figure.set_size_inches(4.8, 3.6)  # readable on a phone
        figure.legends[0].remove()
        axis = figure.axes[0]
        axis.legend(loc="center right", fontsize=7, facecolor="white", framealpha=1.0)
        for name, clicks in known.items():
            axis.axhline(clicks, color="0.4", linestyle=":", linewidth=1.0)
            label, beside = textwrap.fill(name, 13), axis.get_yaxis_transform()
            axis.text(1.02, clicks, label, va="center", transform=beside)
        figure.savefig(arguments.picture, dpi=125)


def references(world: Recommender, people: int) -> dict[str, float]:
    """Return the expected clicks of policies that need no learning."""
    rng = np.random.default_rng(0)
    interests = directions(rng.standard_normal((people, TOPICS)))
    every = np.arange(people)

    def expected(choose: Any) -> float:
        now, clicks = interests, np.zeros(people)
        for _ in range(VISIT):
            chances = world.chances(now)
            shown = choose(chances)
            clicks += chances[every, shown]
            now = world.moved(now)[every, shown]
        return float(clicks.mean())

    return {
        "random": expected(lambda chances: rng.integers(ITEMS, size=people)),
        "always the same item": max(expected(lambda chances, i=i: i) for i in range(ITEMS)),
        "most likely to be clicked": expected(lambda chances: chances.argmax(axis=1)),
        "search ahead": float(search(world, interests).mean()),
    }


def search(world: Recommender, interests: Any) -> Any:
    """Return the clicks of the best visit found for each person by a beam search.

    Interests move with the items shown, clicked or not, so a visit can be planned in advance.
    """
    courses, clicks = interests[:, None], np.zeros((len(interests), 1))
    for _ in range(VISIT):
        clicks = (clicks[..., None] + world.chances(courses)).reshape(len(interests), -1)
        courses = world.moved(courses).reshape(len(interests), -1, TOPICS)
        best = np.argsort(-clicks, axis=1)[:, :KEPT]
        clicks = np.take_along_axis(clicks, best, axis=1)
        courses = np.take_along_axis(courses, best[..., None], axis=1)
    return clicks.max(axis=1)


if __name__ == "__main__":
    main()
