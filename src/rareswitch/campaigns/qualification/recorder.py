"""A recording process for drills, which kill it or limit its disk space.

python -m rareswitch.campaigns.qualification.recorder NUMBER    record until it is killed
python -m rareswitch.campaigns.qualification.recorder room      run out of space, then continue

The environment names the store.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import UnavailableError
from rareswitch.campaigns.qualification.golden import golden_report
from rareswitch.campaigns.store import open_store

NAME = "drill"
STORE = "RARESWITCH_STORE"
ROOM = 256 * 1024  # bytes by which the longest file may grow
MOST = 5000  # episodes that need more space


def main() -> None:
    """Run one of the two drills."""
    store, what = os.environ[STORE], sys.argv[1]
    with open_store(store) as opened:
        campaign = Campaign(opened, NAME)
        if what == "room":
            print(json.dumps(_run_out_of_room(campaign, Path(store))))
            return
        for number in count(int(what)):
            recorded = campaign.record(golden_report(number))
            os.write(1, f"{number} {recorded.seq}\n".encode())  # the answer, after the commit


def _run_out_of_room(campaign: Campaign, path: Path) -> dict[str, Any]:
    """Record until files may not grow, then with space again; return the events."""
    acknowledged: dict[int, int] = {}
    refused, again = "", 0
    longest = max(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    with _limited(longest + ROOM):
        for number in range(MOST):
            try:
                acknowledged[number] = campaign.record(golden_report(number)).seq
            except UnavailableError as error:
                refused = str(error)
                again = campaign.record(golden_report(0)).seq  # it is known, so it needs no space
                break
    following = len(acknowledged)
    acknowledged[following] = campaign.record(golden_report(following)).seq
    return {"acknowledged": list(acknowledged.items()), "refused": refused, "again": again}


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """Limit the size of this process's files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


if __name__ == "__main__":
    main()
