"""Masks: a store orders goods every day, and never more than its shelf can hold.

    python examples/masks.py --picture masks.png

The environment puts an `action_mask` into `info`, as many environments of Gymnasium do. Masked
actions are never chosen, and never enter a value estimate.
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from rareswitch.gym import FiniteModel, train

SHELF, LARGEST, DAYS = 8, 4, 14  # boxes on the shelf, boxes of an order, days of an episode
DEMAND = np.array([1, 4, 6, 4, 1]) / 16  # the probability of 0 to 4 customers on a day
ORDERS, SOLD = np.arange(LARGEST + 1), np.arange(len(DEMAND))


class Store(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(SHELF + 1)  # boxes on the shelf in the morning
    action_space = gymnasium.spaces.Discrete(LARGEST + 1)  # boxes to order

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = int(self.np_random.integers(SHELF + 1))
        return self.stock, {"action_mask": fits(self.stock)}

    def step(self, order):
        customers = self.np_random.choice(SOLD, p=DEMAND)
        self.stock, reward = day(self.stock, order, customers)
        return int(self.stock), float(reward), False, False, {"action_mask": fits(self.stock)}


def fits(stock):
    return (stock + ORDERS <= SHELF).astype(np.int8)


def day(stock, order, customers):
    """Return the stock and the profit of a day: a delivery costs 1.5, a box on the shelf 0.1."""
    left = np.maximum(stock + order - customers, 0)
    return left, (stock + order - left) - 1.5 * (order > 0) - 0.1 * left


def exact_model():
    """Return the store as arrays (state, action, customers), to know the optimum."""
    stock, order, customers = np.meshgrid(np.arange(SHELF + 1), ORDERS, SOLD, indexing="ij")
    left, profit = day(stock, order, customers)
    return FiniteModel(
        probabilities=np.broadcast_to(DEMAND, left.shape),
        next_states=np.minimum(left, SHELF),
        rewards=profit,
        ended=np.zeros(left.shape, bool),
        initial=np.full(SHELF + 1, 1 / (SHELF + 1)),
        feasible=(stock + order <= SHELF)[..., 0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to write a picture")
    arguments = parser.parse_args()
    training = train(Store(), episodes=400, switches=8, horizon=DAYS, rewards=(-2.0, 4.0))
    log, model = list(training.log), exact_model()
    steps = np.array([(s, a) for t in log for s, a in zip(t.observations, t.actions, strict=False)])
    print(f"profit in {DAYS} days")
    print(f"random orders          {model.random_return(DAYS):6.2f}")
    print(f"while learning         {training.totals.mean():6.2f}  (8 switches in 400 episodes)")
    recommended = model.policy_return(training.agent.policy, training.setting.features)
    print(f"recommended, exactly   {recommended:6.2f}")
    print(f"optimum                {model.optimal_return(DAYS):6.2f}")
    print(f"orders that do not fit {int((steps.sum(axis=1) > SHELF).sum()):6} of {len(steps)}")

    if arguments.picture is not None:
        share = np.full((LARGEST + 1, SHELF + 1), np.nan)  # NaN: masked
        for stock in range(SHELF + 1):
            taken = steps[steps[:, 0] == stock][-400:, 1]  # the latest 400 days with this stock
            share[fits(stock) == 1, stock] = (taken[:, None] == ORDERS).mean(axis=0)[
                fits(stock) == 1
            ]
        figure = Figure(figsize=(4.4, 3.1), layout="constrained")
        axis = figure.subplots()
        axis.set_facecolor("0.75")
        drawn = axis.imshow(share, origin="lower", cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.text(6.9, 3.75, "masked", ha="center", va="center")
        axis.set(xlabel="boxes on the shelf", ylabel="boxes ordered", title="Latest orders")
        figure.colorbar(drawn, label="share of days")
        figure.savefig(arguments.picture, dpi=140)


if __name__ == "__main__":
    main()
