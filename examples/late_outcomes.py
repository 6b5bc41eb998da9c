"""Late outcomes: a patient begins every day, the outcome is known weeks later, and a person signs.

    python examples/late_outcomes.py --picture late.png

The four steps of a learner are called one by one: `absorb` an episode when its outcome arrives, ask
whether a switch is `due`, `fit` a candidate, and `deploy` it once it is signed. Patients who begin
in the meantime are treated by the policy in force.
"""

import argparse
import heapq
from pathlib import Path

import numpy as np
from clinic import Clinic, dose_rows
from matplotlib.figure import Figure

import rareswitch as rs
from rareswitch.gym import setting_of
from rareswitch.trajectories import Trajectory, episode_of

PATIENTS = 400
SETTING = setting_of(Clinic(), features=dose_rows, horizon=8, rewards=(-0.2, 1.0))


def treat(policy, patient):
    """Return one patient's episode; the patient's number draws the member that treats."""
    acting = rs.Agent(policy=policy, features=SETTING.features).begin(patient)
    clinic, healthy = Clinic(), False
    observation, info = clinic.reset(seed=patient)
    seen, masks, actions, rewards = [observation], [info["action_mask"]], [], []
    while not healthy and len(actions) < SETTING.horizon:
        actions.append(acting.act(observation, mask=info["action_mask"]))
        observation, reward, healthy, _, info = clinic.step(actions[-1])
        seen.append(observation)
        masks.append(info["action_mask"])
        rewards.append(reward)
    return Trajectory(
        observations=seen, actions=actions, rewards=rewards, masks=np.array(masks, bool),
        terminated=healthy, key=patient,
    )  # fmt: skip


def run(delay, signing):
    """Treat a patient a day; outcomes arrive after `delay` days, signatures after `signing`."""
    learner = SETTING.learner(rs.SpreadBudget(switches=6), episodes=PATIENTS)
    rng, arriving, totals = np.random.default_rng(0), [], []
    candidate, signed, behind = None, None, 0
    for day in range(PATIENTS):
        played = treat(learner.policy, day)
        totals.append(played.total)
        heapq.heappush(arriving, (day + rng.integers(*delay, endpoint=True), day, played))
        while arriving and arriving[0][0] <= day:  # in the order of arrival, not of treatment
            late = heapq.heappop(arriving)[2]
            learner.absorb(episode_of(late, SETTING.features, SETTING.rewards))
        behind = max(behind, len(arriving))
        if candidate is None and learner.due:
            candidate, signed = learner.fit(), day + signing
        if candidate is not None and day >= signed:
            learner.deploy(candidate)  # episodes that arrived since the fit wait for the next one
            candidate = None
    return np.array(totals), len(learner.ledger) - 1, behind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to write a picture")
    arguments = parser.parse_args()
    print("outcomes, signature         mean return   switches   open at most")
    looks = {"at once": "-", "after 20 to 60 days": "--", "20 to 60 days, 14 to sign": ":"}
    figure = Figure(figsize=(4.4, 3.1), layout="constrained")
    axis = figure.subplots()
    cases = (((0, 0), 0, "#0072b2"), ((20, 60), 0, "#d55e00"), ((20, 60), 14, "k"))
    for (name, line), (delay, signing, colour) in zip(looks.items(), cases, strict=True):
        totals, switches, behind = run(delay, signing)
        print(f"{name:26} {totals.mean():12.3f} {switches:10} {behind:14}")
        mean = np.cumsum(totals) / np.arange(1, PATIENTS + 1)
        axis.plot(mean, line, color=colour, label=name, linewidth=2)
    axis.set(xlabel="day", ylabel="mean return so far", title="Outcomes that arrive late")
    axis.set_ylim(0.3, 0.8)
    axis.legend(frameon=False)
    if arguments.picture is not None:
        figure.savefig(arguments.picture, dpi=140)


if __name__ == "__main__":
    main()
