"""ICU-Sepsis: treating sepsis, with a new policy a few dozen times in a thousand patients.

    pip install icu-sepsis
    python examples/sepsis.py --picture sepsis.png

The world (Choudhary, Gupta and Thomas, *ICU-Sepsis: A Benchmark MDP Built from Real Medical Data*,
2024) has 713 states of patients, and 25 treatments: five doses of fluids times five of
vasopressors, of which those that clinicians used in a state are admissible there. A patient who
survives is worth 1. Three feature maps are compared; what a policy is worth, and what clinicians
do, is computed exactly.
"""

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import icu_sepsis  # noqa: F401, it registers the environment
import numpy as np

from rareswitch.features import Custom, FeatureMap, Masked, OneHot
from rareswitch.gym import FiniteModel, train
from rareswitch.gym.exact import Known

STATES, TREATMENTS = 716, 25
DIED, SURVIVED = 713, 714  # these and 715 end a stay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--switches", type=int, help="a twentieth of the episodes, at most 59")
    parser.add_argument("--horizon", type=int, default=20, help="steps of a stay")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="where to write a picture of the last map")
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
    print(f"{'survival':44}learning  switches")
    print(f"{'any admissible treatment':36}{model.random_return(horizon):8.3f}")
    print(f"{'clinicians':36}{clinicians.optimal_return(horizon):8.3f}")
    print(f"{'the best single treatment':36}{max(single):8.3f}")
    maps = {
        "a coordinate for each pair": Masked(OneHot(states=STATES, actions=TREATMENTS), admissible),
        "doses × measurements": table("doses", doses(inside.state_cluster_centers), admissible),
        "what follows, 100 numbers": table("follows", follows(chances, 100), admissible),
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
        exact = model.policy_return(training.agent.policy, features)
        label = f"{name}, d = {features.dim}"
        learning, switches = training.totals.mean(), len(training.switch_episodes)
        print(f"{label:36}{exact:8.3f}{learning:8.3f}{switches:10}", flush=True)
    print(f"{'optimum':36}{model.optimal_return(horizon):8.3f}")

    if arguments.picture is not None:
        from rareswitch.gym.picture import draw_training, save_picture

        known = Known(
            policy=exact, optimum=model.optimal_return(horizon), random=model.random_return(horizon)
        )
        figure = draw_training(training, title=f"Survival in ICU-Sepsis, {label}", known=known)
        save_picture(figure, arguments.picture)


def admissible_treatments(dynamics: Any) -> Any:
    """Return which treatments there are in each state (S, A)."""
    admissible = np.zeros((STATES, TREATMENTS), bool)
    for state, treatments in enumerate(dynamics["admissible_actions"]):
        admissible[state, treatments] = True
    return admissible


def model_of(chances: Any, start: Any, admissible: Any = None) -> FiniteModel:
    """Return the exact model of next states (S, A, S), with the outcomes that are possible."""
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
    """Return the chances of next states along their main directions: what a model would give.

    Whoever has these features knows the world; a model learnt from many earlier patients has them
    nearly.
    """
    flat = chances.reshape(-1, STATES)
    main = np.linalg.eigh(flat.T @ flat)[1][:, ::-1][:, :directions]
    return (flat @ main).reshape(STATES, TREATMENTS, directions)


def table(name: str, rows: Any, admissible: Any) -> FeatureMap:
    """Return the map from a state to its rows (A, d), of length at most 1, that are admissible."""
    rows = rows / np.linalg.norm(rows, axis=-1).max()
    shape = {"actions": TREATMENTS, "dim": rows.shape[-1]}
    every = Custom(lambda state: rows[state], name=name, norm=1.0, **shape)
    return Masked(every, lambda state: admissible[state])


if __name__ == "__main__":
    main()
