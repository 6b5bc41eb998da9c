"""A service whose disk fills up and has room again. See the tests.

    python scarce_service.py FOLDER

It mounts a small file system on the folder, so it needs a namespace of its own: see scarce_room.py.
"""

import os
import sys
import tempfile
from pathlib import Path

from rareswitch.campaigns import Campaign, open_store
from scarce_room import mount
from service_load import Load, check_record, large_study
from service_process import ServiceProcess, tokens_of_sites, wait_until

SITES = ("berlin", "lima", "osaka", "bergen")


def main(folder: Path, logs: Path) -> None:
    mount(folder, "-o", "size=32m")
    url = f"sqlite:///{folder / 'store.db'}"
    tokens = tokens_of_sites(url, SITES, *large_study())
    with ServiceProcess(url, logs) as service:
        service.start()
        with Load(tokens, service.port) as load:
            load.wait_for(8)
            ballast = folder / "ballast"
            fill(ballast)
            wait_until(lambda: load.statuses[507] >= 8 or load.unexpected, "no 507 is answered")
            token = load.sites[0].token
            assert service.ask("GET", "/v1/campaigns/doors", token)[0] == 200
            assert service.ask("GET", "/v1/campaigns/doors/policy", token)[0] == 200
            ballast.unlink()
            load.wait_for(60)  # so that a policy is due
            wait_until(lambda: version(url) > 1, "nobody learns any more", every=0.5)
        assert load.statuses[503] == 0, load.statuses
        assert load.cuts == 0
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text()
    check_record(url, load)


def fill(ballast: Path) -> None:
    """Take all room that is left."""
    with ballast.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue


def version(url: str) -> int:
    with open_store(url) as store:
        return Campaign(store, "doors").version


if __name__ == "__main__":
    os.chdir("/")
    with tempfile.TemporaryDirectory() as logs:
        main(Path(sys.argv[1]), Path(logs))
