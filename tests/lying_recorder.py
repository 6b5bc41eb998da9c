"""In place of the recorder of drills: it answers before it records, and has room for everything."""

import json
import os
import sys
from itertools import count

from rareswitch.campaigns import Campaign, open_store
from rareswitch.campaigns.qualification.golden import golden_report
from rareswitch.campaigns.qualification.recorder import NAME, STORE


def main():
    with open_store(os.environ[STORE]) as store:
        campaign = Campaign(store, NAME)
        if sys.argv[1] == "room":
            acknowledged = [[number, number + 1] for number in range(9)]
            print(json.dumps({"acknowledged": acknowledged, "refused": "", "again": 0}))
            return
        for number in count(int(sys.argv[1])):
            if number != 3:  # this one is lost
                campaign.record(golden_report(number))
            os.write(1, f"{number} {number + 1}\n".encode())


if __name__ == "__main__":
    main()
