"""Classic control: observations that are a few numbers, and no settings.

    python examples/classic_control.py --world CartPole-v1 --picture cart-pole.png

`train` chooses features, horizon and the range of rewards from the spaces of the environment and
from a little random play. The output starts with each choice and the reason for it.
"""

import argparse
from pathlib import Path

import gymnasium

from rareswitch.gym import train

WORLDS = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", choices=WORLDS, default=WORLDS[0])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--switches", type=int, help="a twentieth of the episodes, at most 59")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to write a picture of the training")
    parser.add_argument("--quick", action="store_true", help="12 episodes of 40 steps, 2 switches")
    arguments = parser.parse_args()
    world = gymnasium.make(arguments.world)

    training = train(
        world,
        episodes=12 if arguments.quick else arguments.episodes,
        switches=2 if arguments.quick else arguments.switches,
        horizon=40 if arguments.quick else None,
        seed=arguments.seed,
    )
    setting, totals = training.setting, training.totals
    for part, reason in setting.reasons.items():
        print(f"{part:10}{reason}")
    fresh = training.evaluate(20 if arguments.quick else 100)
    first = training.cohorts()[0]
    half = len(totals) // 2
    print(f"\n{f'return over {setting.horizon} steps':36}switches")
    print(f"{'before any data':26}{first.mean:8.1f}")
    print(f"{'while learning':26}{totals.mean():8.1f}{len(training.switch_episodes):10}")
    print(f"{'second half of it':26}{totals[half:].mean():8.1f}")
    print(f"{'recommended, fresh':26}{fresh.mean:8.1f}  [{fresh.low:.1f}, {fresh.high:.1f}]")

    if arguments.picture is not None:
        from rareswitch.gym.picture import draw_training

        figure = draw_training(training, title=arguments.world, fresh=fresh)
        figure.set_size_inches(4.4, 3.1)  # readable on a phone
        figure.legends[0].remove()
        figure.axes[0].legend(loc="center right", fontsize=8, facecolor="white", framealpha=1.0)
        figure.savefig(arguments.picture, dpi=140)


if __name__ == "__main__":
    main()
