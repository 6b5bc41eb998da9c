"""Answer requests as a service would: read a line, record, write the answer. See the tests.

Its arguments are a store and, to see that a test notices, a level of SQLite's `synchronous`.
"""

import sys

import sqlalchemy as sa

from campaign_builders import report
from rareswitch.campaigns import Campaign, open_store


def main():
    store = open_store(sys.argv[1])
    if sys.argv[2:]:
        store.engine.dispose()
        sa.event.listen(store.engine, "connect", less_durable)
    campaign = Campaign(store, "trial")
    for line in sys.stdin:
        number = int(line)
        even = number % 2 == 0
        answer = campaign.record(report(number)) if even else campaign.assign(f"p{number + 1}")
        print(f"answered {number}: {answer}", flush=True)


def less_durable(connection, _):
    connection.execute(f"PRAGMA synchronous={sys.argv[2]}")


if __name__ == "__main__":
    main()
