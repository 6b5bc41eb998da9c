"""An environment and features of your own: three doses for patients who differ.

    python examples/clinic.py --picture clinic.png
    rareswitch train clinic:Clinic --features clinic:dose_rows --episodes 300 --horizon 8

The second command runs in the folder of this file. The script compares three feature maps: cosines
(the default for numbers), numbers as they are, and a function that knows what a dose does.
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from matplotlib.figure import Figure

from rareswitch.gym import train


class Clinic(gymnasium.Env):
    observation_space = Box(0.0, 1.0, (2,))  # how ill, and how sensitive
    action_space = Discrete(3)  # wait, half a dose, a full dose

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.ill, self.sensitive = self.np_random.uniform([0.5, 0.0], 1.0)
        self.last = 0
        return self.seen()

    def step(self, action):
        dose, self.last = action / 2, action
        better = 0.4 * dose - 0.05 + 0.05 * self.np_random.normal()
        self.ill = float(np.clip(self.ill - better, 0.0, 1.0))
        healthy = self.ill < 0.1
        reward = float(healthy) - 0.2 * dose * self.sensitive
        observation, info = self.seen()
        return observation, reward, healthy, False, info

    def seen(self):
        observation = np.array([self.ill, self.sensitive], np.float32)
        return observation, {"action_mask": np.array([1, 1, self.last != 2], np.int8)}


def dose_rows(observation):
    ill, sensitive = observation
    dose = np.array([0.0, 0.5, 1.0])
    after = np.maximum(ill - 0.4 * dose, 0.0)  # how ill after each dose
    harm = dose * sensitive
    both = np.broadcast_to([1.0, sensitive], (3, 2))
    return np.column_stack([both, after, after**2, after * sensitive, harm])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to write a picture")
    arguments = parser.parse_args()
    maps = {"default": None, "linear": "linear", "dose_rows": dose_rows}
    print("features     d   while learning   recommended, 500 fresh patients")
    curves = {}
    for name, features in maps.items():
        training = train(
            Clinic(), episodes=300, switches=9, horizon=8, rewards=(-0.2, 1.0), features=features
        )
        fresh = training.evaluate(500)
        found = f"{fresh.mean:.3f} [{fresh.low:.3f}, {fresh.high:.3f}]"
        dim = training.setting.features.dim
        print(f"{name:10} {dim:3}   {training.totals.mean():14.3f}   {found}")
        curves[name] = np.cumsum(training.totals) / np.arange(1, 301)

    if arguments.picture is not None:
        figure = Figure(figsize=(4.4, 3.1), layout="constrained")
        axis = figure.subplots()
        looks = {"default": ("#0072b2", "-"), "linear": ("#d55e00", "--"), "dose_rows": ("k", ":")}
        for name, (colour, line) in looks.items():
            axis.plot(np.arange(1, 301), curves[name], line, color=colour, label=name, linewidth=2)
        axis.set(xlabel="patients so far", ylabel="mean return so far", title="Three feature maps")
        axis.set_ylim(0.55, 0.82)
        axis.legend(frameon=False)
        figure.savefig(arguments.picture, dpi=130)


if __name__ == "__main__":
    main()
