"""A mixture with a control: learned policies beside usual care, in every version.

    python examples/control.py --picture control.png

Participants of this trial do better from month to month, whatever the treatment. A comparison with
earlier participants would count that as a gain. The control plays a fixed share of the episodes of
every version, so each version is compared with usual care at the same time.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import rareswitch as rs

PARTICIPANTS, USUAL_CARE = 2000, 0
ROLES = ("learned", "control")  # the floor has too few to compare


def rows(severity):
    """Return a row for usual care, drug A and drug B: a constant and the severity for each."""
    return np.kron(np.eye(3), [[1.0, severity]]) / np.sqrt(2)


def chance(treatment, severity, participant):
    """Return the chance of a recovery: drug A helps the severe, drug B the mild."""
    drift = 0.3 * participant / PARTICIPANTS
    return 0.3 + drift + [0.0, 0.4 * severity - 0.1, 0.1 - 0.2 * severity][treatment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to write a picture")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    # 30% usual care, 10% at random, and the learned members share the other 60%.
    recipe = rs.Recipe(control=rs.Control(USUAL_CARE, share=0.3), floor=0.1, burn_in=True)
    rule = rs.rules.Waiting(rs.SpreadBudget(switches=4), first=200, apart=300)
    learner = rs.Learner(rs.Task(dim=6, horizon=1, episodes=PARTICIPANTS), rule, recipe)
    outcomes = {}  # by version and role
    for participant in range(PARTICIPANTS):
        player, severity = learner.policy.draw(participant), rng.random()
        offered, version = rows(severity), len(learner.ledger)
        treatment = player.act(0, offered)
        recovered = float(rng.random() < chance(treatment, severity, participant))
        outcomes.setdefault((version, player.role), []).append(recovered)
        learner.observe(
            rs.Episode(features=[offered[treatment]], rewards=[recovered], next_features=[])
        )

    print("version  learned        usual care     difference [95%]")
    found = []
    for version in range(2, len(learner.ledger) + 1):
        means = [np.mean(outcomes[version, role]) for role in ROLES]
        sizes = [len(outcomes[version, role]) for role in ROLES]
        # Normal intervals of the two shares and of their difference, good enough for hundreds.
        errors = [1.96 * np.sqrt(m * (1 - m) / n) for m, n in zip(means, sizes, strict=True)]
        gain, ends = means[0] - means[1], np.hypot(*errors)
        found.append((version, *means, *errors))
        each = "  ".join(f"{m:.2f} ({n:4})" for m, n in zip(means, sizes, strict=True))
        print(f"{version:7}  {each:29} {gain:.2f} [{gain - ends:.2f}, {gain + ends:.2f}]")

    if arguments.picture is not None:
        version, learned, control, error, control_error = np.transpose(found)
        looks = {"linewidth": 2, "capsize": 4}
        figure = Figure(figsize=(4.4, 3.1), layout="constrained")
        axis = figure.subplots()
        blue = looks | {"fmt": "o-", "color": "#0072b2", "label": "learned"}
        orange = looks | {"fmt": "s--", "color": "#d55e00", "label": "usual care"}
        axis.errorbar(version - 0.05, learned, error, **blue)
        axis.errorbar(version + 0.05, control, control_error, **orange)
        axis.set(xlabel="version", ylabel="share that recovers", title="Gain beside a control")
        axis.set_xticks(version)
        axis.legend(frameon=False)
        figure.savefig(arguments.picture, dpi=140)


if __name__ == "__main__":
    main()
