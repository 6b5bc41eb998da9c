"""A simulated site of the study `doses`: participants arrive, are treated, and are reported.

    RARESWITCH_TOKEN=rsw_… python examples/service/site.py --site berlin --participants 20

`rareswitch serve --demo` shows such a study. The line to the server may fail at any time: the site
goes on with the assignments that it has reserved, and its reports wait on disk. After a crash,
start it again: it continues where it was.
"""

import argparse
import os
import random

from rareswitch.campaigns.client import Client

# The chance to recover, by severity and by dose.
RECOVERY = {
    "usual care": (0.80, 0.50, 0.25),
    "low dose": (0.70, 0.75, 0.40),
    "high dose": (0.45, 0.60, 0.75),
}


def treat(client: Client, name: str, chances: random.Random) -> str:
    """Treat one participant, and return a line to print."""
    severity = chances.randrange(3)
    with client.episode(name) as episode:
        if not episode.waits:  # after a crash, it may wait for the outcome of a treatment
            episode.act({"severity": severity})
        dose = str(episode.action)
        recovered = chances.random() < RECOVERY[dose][severity]
        episode.reward(float(recovered))
    return f"{name}: severity {severity}, {dose}, {'recovered' if recovered else 'not recovered'}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument(
        "--url", default=os.environ.get("RARESWITCH_URL", "http://127.0.0.1:8000")
    )
    arguments.add_argument("--campaign", default=os.environ.get("RARESWITCH_CAMPAIGN", "doses"))
    arguments.add_argument("--site", default="berlin")
    arguments.add_argument("--participants", type=int, default=20)
    arguments.add_argument("--folder", help="of the policy, episodes and reports")
    given = arguments.parse_args()
    names = [f"{given.site}:{number:04d}" for number in range(1, given.participants + 1)]
    with Client(given.url, given.campaign, folder=given.folder) as client:
        client.refresh()
        client.reserve(names)  # from here on, the site needs no line to treat
        for name in names:
            print(treat(client, name, random.Random(name)))
        sent = client.flush(wait=60.0)
        print(f"{client.status().waiting} reports wait, {len(client.refused())} were refused")
        if sent.error is not None:
            print(f"they wait because {sent.error}; start the program again later")


if __name__ == "__main__":
    main()
