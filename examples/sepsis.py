"""ICU-Sepsis: treating sepsis with a new policy a few dozen times in a thousand patients.

    pip install icu-sepsis
    python examples/sepsis.py --picture sepsis.png

The environment (Choudhary, Gupta and Thomas, *ICU-Sepsis: A Benchmark MDP Built from Real Medical
Data*, 2024) has 713 states of patients and 25 treatments: five doses of fluids times five of
vasopressors. Only treatments that clinicians used in a state are admissible there. A patient who
survives is worth 1. The script compares three feature maps with clinicians and with the optimum,
and computes the value of each policy exactly.
"""

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import icu_sepsis  # noqa: F401, it registers the environment
import numpy as np
from matplotlib.figure import Figure

from rareswitch.features import Custom, FeatureMap, Masked, OneHot
from rareswitch.gym import FiniteModel, train

STATES, TREATMENTS = 716, 25
DIED, SURVIVED = 713, 714  # these and 715 end a stay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--switches", type=int, help="a twentieth of the episodes, at most 59")
    parser.add_argument("--horizon", type=int, default=20, help="steps of a stay")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to write a picture")
    parser.add_argument("--quick", action="store_true", help="40 episodes of 5 steps")
    arguments = parser.parse_args()
    horizon = 5 if arguments.quick else arguments.horizon
    world = gymnasium.make("Sepsis/ICU-Sepsis-v2")
    inside = world.unwrapped
    chances, start = inside.dynamics["tx_mat"], inside.dynamics["d_0"]  # (S, A, S), (S,)
    admissible = admissible_treatments(inside.dynamics)
    model = model_of(chances, start, admissible)
    clinicians = model_of(np.vecmat(inside.expert_policy, chances)[:, None], start)
    single = (model_of(chances[:, [a]], start).optimal_return(horizon) for a in range(TREATMENTS))
    exact = {
        "any admissible treatment": model.random_return(horizon),
        "clinicians": clinicians.optimal_return(horizon),
        "best single treatment": max(single),
    }
    print(f"{'survival':36}exactly  while learning  switches")
    for name, survival in exact.items():
        print(f"{name:36}{survival:7.3f}")
    maps = {
        "table of pairs": Masked(OneHot(states=STATES, actions=TREATMENTS), admissible),
        "doses × measurements": table("doses", doses(inside.state_cluster_centers), admissible),
        "next states": table("follows", follows(chances, 100), admissible),
    }
    for name, features in maps.items():
        training = train(
            world,
            episodes=40 if arguments.quick else arguments.episodes,
            switches=arguments.switches,
            horizon=horizon,
            features=features,
            rewards=(0.0, 1.0),
            seed=arguments.seed,
        )
        exact[name] = model.policy_return(training.agent.policy, features)
        label = f"{name}, d = {features.dim}"
        learning, switches = training.totals.mean(), len(training.switch_episodes)
        print(f"{label:36}{exact[name]:7.3f}{learning:16.3f}{switches:10}", flush=True)
    exact["optimum"] = model.optimal_return(horizon)
    print(f"{'optimum':36}{exact['optimum']:7.3f}")
    if arguments.picture is not None:
        draw(exact, maps, arguments.picture)


def draw(exact: dict[str, float], maps: Any, path: Path) -> None:
    """Draw the survival of each policy as a point; those that were learned are filled."""
    figure = Figure(figsize=(4.4, 2.9), layout="constrained")
    axis = figure.subplots()
    for place, (name, survival) in enumerate(exact.items()):
        colour, fill = ("#0072b2", "full") if name in maps else ("k", "none")
        axis.plot(survival, place, "o", color=colour, fillstyle=fill, markersize=8)
        axis.annotate(f"{survival:.3f}", (survival, place), (8, 0), textcoords="offset points",
                      va="center")  # fmt: skip
    axis.set_yticks(range(len(exact)), list(exact))
    axis.invert_yaxis()
    axis.margins(x=0.45)
    axis.grid(axis="y", color="0.9")
    axis.set(xlabel="survival, exactly", title="Treating sepsis")
    figure.savefig(path, dpi=140)


def admissible_treatments(dynamics: Any) -> Any:
    """Return whether each treatment is admissible in each state (S, A)."""
    admissible = np.zeros((STATES, TREATMENTS), bool)
    for state, treatments in enumerate(dynamics["admissible_actions"]):
        admissible[state, treatments] = True
    return admissible


def model_of(chances: Any, start: Any, admissible: Any = None) -> FiniteModel:
    """Return an exact model from the chances of next states (S, A, S)."""
    most = int(np.count_nonzero(chances, axis=-1).max())
    outcomes = np.argsort(-chances, axis=-1, kind="stable")[..., :most]
    return FiniteModel(
        probabilities=np.take_along_axis(chances, outcomes, axis=-1),
        next_states=outcomes,
        rewards=(outcomes == SURVIVED).astype(float),
        ended=outcomes >= DIED,
        initial=start,
        feasible=admissible,
    )


def doses(measurements: Any) -> Any:
    """Return doses up to their squares times the nine main directions of measurements (S, 47)."""
    patients = measurements[:DIED]
    scaled = (patients - patients.mean(axis=0)) / patients.std(axis=0)
    main = np.linalg.svd(scaled, full_matrices=False)[0][:, :9] * np.sqrt(DIED)
    states = np.zeros((STATES, 10))
    states[:DIED] = np.column_stack([np.ones(DIED), main.clip(-3.0, 3.0)])
    fluids, vasopressors = np.divmod(np.arange(TREATMENTS), 5) / np.array([[2.0], [2.0]]) - 1.0
    dose = np.column_stack(
        [np.ones(25), fluids, vasopressors, fluids**2, vasopressors**2, fluids * vasopressors]
    )
    return np.einsum("sk,aj->sakj", states, dose).reshape(STATES, TREATMENTS, -1)


def follows(chances: Any, directions: int) -> Any:
    """Return the chances of next states along their main directions (S, A, directions).

    These come from the environment itself. A model fitted to very many earlier patients would give
    nearly the same numbers.
    """
    flat = chances.reshape(-1, STATES)
    main = np.linalg.eigh(flat.T @ flat)[1][:, ::-1][:, :directions]
    return (flat @ main).reshape(STATES, TREATMENTS, directions)


def table(name: str, rows: Any, admissible: Any) -> FeatureMap:
    """Return a masked map from a state to rows (A, d) of length at most 1."""
    rows = rows / np.linalg.norm(rows, axis=-1).max()
    shape = {"actions": TREATMENTS, "dim": rows.shape[-1]}
    every = Custom(lambda state: rows[state], name=name, norm=1.0, **shape)
    return Masked(every, lambda state: admissible[state])


if __name__ == "__main__":
    main()
