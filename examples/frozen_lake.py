"""FrozenLake: from the name of an environment to a policy, version by version.

    python examples/frozen_lake.py --picture lake.png

On the ice a step goes as intended four times in five, and otherwise to one side. The environment
has a model, so the optimum and the expected return of a policy are known exactly.
"""

import argparse
from pathlib import Path

import gymnasium

import rareswitch as rs
from rareswitch.gym import train
from rareswitch.gym.exact import known_returns

HORIZON = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--switches", type=int, default=19)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to write a picture of the training")
    parser.add_argument("--quick", action="store_true", help="200 episodes")
    arguments = parser.parse_args()
    episodes = 200 if arguments.quick else arguments.episodes
    lake = gymnasium.make("FrozenLake-v1", success_rate=0.8)

    training = train(
        lake,
        episodes=episodes,
        switches=arguments.switches,
        horizon=HORIZON,
        seed=arguments.seed,
    )
    every = train(
        lake,
        episodes=episodes,
        schedule=rs.EveryEpisode(),
        # A draw for every episode: no mixture is needed.
        recipe=rs.Recipe(exploration=rs.Ensemble(members=1)),
        horizon=HORIZON,
        seed=arguments.seed,
    )
    known = known_returns(training.agent.policy, lake, training.setting.features)

    print("version  episodes       return [95%]")
    for cohort in training.cohorts():
        last = cohort.first + cohort.episodes - 1
        ends = "" if cohort.low is None else f" [{cohort.low:.2f}, {cohort.high:.2f}]"
        print(f"{cohort.version:7}  {cohort.first:4} – {last:4}    {cohort.mean:.2f}{ends}")
    print(f"\n{'':28}return  switches")
    print(f"{'random':28}{known.random:6.3f}")
    for name, found in (("a mixture", training), ("every episode", every)):
        switches = len(found.switch_episodes)
        print(f"{'learning, ' + name:28}{found.totals.mean():6.3f}{switches:10}")
    print(f"{'recommended, exactly':28}{known.policy:6.3f}")
    print(f"{'optimum':28}{known.optimum:6.3f}")

    if arguments.picture is not None:
        from rareswitch.gym.picture import draw_training, save_picture

        figure = draw_training(training, title=f"FrozenLake, {HORIZON} steps", known=known)
        save_picture(figure, arguments.picture)


if __name__ == "__main__":
    main()
