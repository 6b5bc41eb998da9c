"""Check the export of a campaign: one file that needs Python 3.11, NumPy and nothing else.

    python verify_export.py FOLDER [--manifest SHA256] [--json]

It imports nothing of the software that wrote the export: it is the second opinion. In this order:

    files        every file against its SHA-256 in manifest.json, and that against --manifest, the
                 digest that the campaign entered into its ledger after the export
    chains       every row of the log, the assignments, the refusals and the ledger against its
                 link, a SHA-256 over the row and the link before: rows that were altered, taken
                 out, put in or moved are named
    reached      how far the other chains were when each entry of the ledger was written
    decisions    versions grow by one within the budget, signed by a second person where one must
    protocol     every revision against what the ledger has, and the simulation made beforehand
    policies     every policy that was proposed or in force against its digest
    assignments  each names the version that was in force, and the member that the allocation gives
    episodes     each was played by a version in force, assigned or in its grace; corrections
    triggers     what the switching rule watched at each candidate, computed again from the
                 episodes; planned ones were fitted where the rule asked for one first
    stops        what the stopping rules watched after each episode, refusal, correction and
                 amendment: the campaign stopped where one was reached first, or by a person
    cohorts      how many episodes each version played, and their mean return

A switching rule may be a class of the user's own, module:Class, which this file cannot ask: it says
which candidates it could not check for that reason, and checks all the rest.

It exits with 0 if all of it holds, with 1 if something does not, with 2 if there is no export.
"""

import argparse
import hashlib
import json
import math
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]

FORMAT = 1
GENESIS = "0" * 64  # what the first row of a chain is linked to
KEPT = ("version", "member", "assigned", "late", "learn")  # of an episode, whatever corrects it
CHAINS = {  # the columns of a row: what it is numbered by, and the others
    "ledger": ("number", "kind", "actor", "reason", "at", "payload"),
    "assignments": ("number", "episode_id", "version", "member", "assigned"),
    "refusals": ("number", "seq", "episode_id", "reason", "excerpt", "digest", "received"),
    "episodes": ("seq", "episode_id", "revision", *KEPT, "total", "claims", "received", "digest",
                 "body"),
}  # fmt: skip
TEXTS = ("claims", "payload")  # these are hashed as the JSON text of what they hold
AMENDABLE = ("schedule", "budget", "approval", "intake", "stopping")  # and [task] episodes
KINDS = ("created", "candidate", "approved", "rejected", "deployed", "rolled-back", "amended",
         "corrected", "forgotten", "stopped", "exported")  # fmt: skip
DEPLOYMENT = ("version", "seq", "digest", "members", "allocation")
OPEN = ("waiting", "approved")
ENGINE = "engine"  # who stops a campaign by a rule
TUNED_FOR = math.log(2 / 0.05)  # what the weights of a running mean are chosen for
# Weights and log-determinants are computed another way than by the software: they agree to this.
TOLERANCE = 1e-9
GROWTH_TOLERANCE = 1e-10  # a growth of exactly the threshold has not exceeded it
LARGEST, TOTAL = "largest growth of a log-determinant", "total growth of the log-determinants"
BROKEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
          OSError, StopIteration)  # fmt: skip


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, shortest exact numbers."""
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def close(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def named(text: str) -> str:
    """Return a name so that two spellings of it are the same."""
    return text.strip().casefold()


# --- rows and chains ------------------------------------------------------------------------------


def packed(body: Row) -> tuple[bytes, Row]:
    """Return the bytes of an episode's body, which are what is hashed, and its plain values again.

    b"rareswitch", the length of the header, the header, the arrays one after the other, and the
    SHA-256 of all that. Features are rows of numbers, or positions where they are one-hot.
    """
    rows: Any = np.float64 if isinstance(body["features"][0], list) else np.int64
    following = [np.array(part, rows) for part in body["next_features"]]
    types = {"features": rows, "rewards": np.float64, "next_features": rows, "lengths": np.int64,
             "first_features": rows, "actions": np.int64, "propensities": np.float64,
             "recommended": np.int64}  # fmt: skip
    arrays: dict[str, Any] = {}
    for name, kind in types.items():
        if name == "next_features":
            arrays[name] = np.concatenate([arrays["features"][:0], *following])
        elif name == "lengths":
            arrays[name] = np.array([len(part) for part in following], kind)
        elif name in body:
            arrays[name] = np.array(body[name], kind)
    listed = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    header = canonical({"format": 1, "kind": "report", "meta": {}, "arrays": listed}).encode()
    data = b"rareswitch" + len(header).to_bytes(4, "little") + header
    data += b"".join(array.tobytes() for array in arrays.values())
    again = {name: array.tolist() for name, array in arrays.items() if name != "lengths"}
    again["next_features"] = [part.tolist() for part in following]
    return data + hashlib.sha256(data).digest(), again


def read_row(chain: str, line: bytes) -> tuple[Row, str, str]:
    """Return a row, the text of it that is linked, and the checksum of its body."""
    row, number = json.loads(line), CHAINS[chain][0]
    if set(row) != {"link", *CHAINS[chain]}:
        raise ValueError(f"its columns are {', '.join(row)}")
    if type(row[number]) is not int or row[number] < 1:
        raise ValueError(f"its number is {row[number]!r}")
    part, written, checksum = dict(row), dict(row), ""
    if row.get("body") is not None:
        body, written["body"] = packed(row["body"])
        part["body"], checksum = sha256(body), body[-32:].hex()
    # What JSON reads as the same value, such as 1 for 1.0 or a key twice, is altered all the same.
    if canonical(written).encode() + b"\n" != line:
        raise ValueError(f"row {row[number]} is not in the form in which it was exported")
    del part["link"]
    part |= {name: canonical(row[name]) for name in TEXTS if name in row}
    return row, canonical(part), checksum


def rows_of(folder: Path, chain: str) -> Iterator[Row]:
    with open(folder / f"{chain}.jsonl", "rb") as lines:
        yield from map(json.loads, lines)


def check_chain(
    folder: Path, chain: str, head: list[Any], links: dict[int, str], look: Callable[..., Any]
) -> Iterator[str]:
    """Give what is wrong with a chain; fill in the links by number, and show `look` every row."""
    links[0] = GENESIS
    computed: dict[int, str] = {}
    waiting: list[tuple[int, str]] = []
    highest = 0

    def altered(number: int, text: str) -> bool:
        """Hold a row against its link. That of the row before may itself have been altered."""
        before = {links[number - 1], computed.get(number - 1, links[number - 1])}
        computed[number] = sha256(links[number - 1] + text)
        return links[number] not in {sha256(link + text) for link in before}

    with open(folder / f"{chain}.jsonl", "rb") as lines:
        for place, line in enumerate(lines, start=1):
            try:
                row, text, checksum = read_row(chain, line)
            except BROKEN as error:
                yield f"line {place} is no row: {error}"
                continue
            number = row[CHAINS[chain][0]]
            if number in links:
                yield f"row {number} is there again, in line {place}"
                continue
            if number < highest:
                yield f"row {number} is out of its place, in line {place}"
            links[number], highest = row["link"], max(number, highest)
            if number - 1 not in links:
                waiting.append((number, text))
            elif altered(number, text):
                yield f"row {number} was altered"
            look(row, checksum)
    for number, text in waiting:
        if number - 1 in links and altered(number, text):
            yield f"row {number} was altered"
    length, link = head
    yield from (
        f"row {number} is missing" for number in range(1, length + 1) if number not in links
    )
    yield from (f"row {number} was added after the export" for number in links if number > length)
    if links.get(length, link) != link:
        yield f"row {length} is not the one that was last when it was exported"


def check_reached(entries: list[Row], links: dict[str, dict[int, str]]) -> Iterator[str]:
    """Hold the heads of the other chains that each entry of the ledger keeps against the chains."""
    before = dict.fromkeys(CHAINS, 0)
    for entry in entries:
        for chain, (length, link) in entry["payload"]["reached"].items():
            if length < before[chain] or links[chain].get(length) != link:
                yield f"entry {entry['number']} saw another row {length} of {chain}"
            before[chain] = length


# --- decisions ------------------------------------------------------------------------------------


@dataclass
class Story:
    """What the ledger tells, in its order.

    `revised`, `since` and `assigned_since` say how many rows were recorded when each revision of
    the protocol and each version came into force, and how many episodes were assigned. The rule is
    not asked before the row `asked_again`: after a rejection, and when there is budget again.
    """

    revisions: list[Row] = field(default_factory=list)
    revised: list[int] = field(default_factory=list)
    versions: list[Row] = field(default_factory=list)
    since: list[int] = field(default_factory=list)
    assigned_since: list[int] = field(default_factory=list)
    candidates: dict[int, Row] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)  # candidates and versions
    corrections: dict[int, Row] = field(default_factory=dict)
    stopped: Row | None = None
    asked_again: int = 0

    @property
    def spent(self) -> int:
        """Deployments after the first; rollbacks are counted apart."""
        return sum("to" not in version for version in self.versions) - 1

    @property
    def left(self) -> bool:
        return bool(self.revisions) and self.spent < self.revisions[-1]["budget"]["deployments"]

    def protocol_of(self, seq: int) -> Row:
        """Return the revision that holds for a row of the log: an amendment is for later rows."""
        return self.revisions[max(0, bisect_right(self.revised, seq - 1) - 1)]

    def member(self, version: int, episode_id: str) -> int:
        """Return the member of a version that plays an episode: a hash, the same everywhere."""
        acted = self.versions[version - 1]
        text = f"{acted['allocation'] or 0}/{episode_id}".encode()
        named = hashlib.blake2b(text, digest_size=8).digest()
        return int.from_bytes(named, "big") * acted["members"] >> 64

    def take(self, entry: Row) -> None:
        """Go on to what is so after an entry."""
        kind, payload, reached = entry["kind"], entry["payload"], entry["payload"]["reached"]
        recorded = reached["episodes"][0]
        if kind in ("created", "amended"):
            left = self.left
            self.revisions.append(payload["protocol"])
            self.revised.append(recorded)
            if kind == "amended" and self.left and not left:
                self.asked_again = max(self.asked_again, recorded + 1)
        elif kind == "candidate":
            passed = [told["seq"] for told in (self.versions[-1], *self.candidates.values())]
            asked_from = max(self.asked_again, max(passed) + 1)
            found = {**payload, "status": "waiting", "entry": entry, "asked_from": asked_from}
            self.candidates[entry["number"]] = found
            self.events.append(found)
        elif kind in ("approved", "rejected"):
            self.candidates[payload["candidate"]]["status"] = kind
            if kind == "rejected":
                self.asked_again = recorded + self.revisions[-1]["approval"]["retry_after"]
        elif kind in ("deployed", "rolled-back"):
            for number, candidate in self.candidates.items():
                if candidate["status"] in OPEN:
                    candidate["status"] = (
                        "deployed" if number == payload.get("candidate") else "void"
                    )
            self.versions.append(payload)
            self.events.append(payload)
            self.since.append(recorded)
            self.assigned_since.append(reached["assignments"][0])
        elif kind == "corrected":
            self.corrections[payload["seq"]] = payload
        elif kind == "stopped":
            self.stopped = reached


def check_decisions(entries: list[Row], story: Story) -> Iterator[str]:
    """Give what the rules did not allow, entry by entry, and fill in the story."""
    for entry in entries:
        name = f"entry {entry['number']} ({entry['kind']})"
        try:
            yield from [f"{name} {what}" for what in not_allowed(story, entry)]
            story.take(entry)
        except BROKEN as error:
            yield f"{name} cannot be followed: {error!r}"
            return
        spent, budget = story.spent, story.revisions[-1]["budget"]["deployments"]
        if spent > budget:
            yield f"{name}: {spent} deployments after the first, and the budget is {budget}"


def not_allowed(story: Story, entry: Row) -> Iterator[str]:
    """Give what speaks against an entry, given those before it."""
    kind, payload = entry["kind"], entry["payload"]
    recorded, following = payload["reached"]["episodes"][0], len(story.versions) + 1
    if kind not in KINDS:
        yield "is of no known kind"
    if (kind == "created") != (entry["number"] == 1):
        yield "must be the first entry, and the first entry must be that"
    if entry["number"] == 2 and kind != "deployed":
        yield "must put version 1 in force"
    if named(entry["actor"]) == ENGINE and kind != "stopped":
        yield f"is signed by {ENGINE}, which does nothing but stop a campaign by a rule"
    if kind in ("created", "amended"):
        if sha256(canonical(payload["protocol"])) != payload["digest"]:
            yield "has a protocol of another digest"
        if kind == "amended" and settled(payload["protocol"]) != settled(story.revisions[-1]):
            yield "changes what recorded episodes were counted by"
        if kind == "amended" and payload["protocol"] == story.revisions[-1]:
            yield "changes nothing"
    if kind in ("candidate", "deployed", "rolled-back") and payload["version"] != following:
        yield f"is about version {payload['version']}, and the next is {following}"
    if story.stopped and kind in ("candidate", "approved", "deployed", "amended", "stopped"):
        yield "comes after the campaign stopped"
    if kind == "candidate":
        if any(candidate["status"] in OPEN for candidate in story.candidates.values()):
            yield "comes while another waits"
        if not story.left:
            yield "comes when no deployment is left"
        if not story.versions[-1]["seq"] <= payload["seq"] <= recorded:
            yield f"was fitted on the log up to row {payload['seq']}, which it could not be"
    elif kind in ("approved", "rejected"):
        candidate = story.candidates[payload["candidate"]]
        if candidate["status"] != "waiting":
            yield f"is about a candidate that is {candidate['status']}"
        if kind == "approved" and named(entry["actor"]) == named(candidate["entry"]["actor"]):
            yield f"was signed by {entry['actor']}, who proposed it"
        meaning = (f"approve version {candidate['version']} for deployment" if kind == "approved"
                   else f"reject candidate {payload['candidate']}")  # fmt: skip
        if payload["meaning"] != meaning:
            yield f"was signed with another meaning than to {meaning}"
    elif kind == "deployed" and following == 1:
        if payload["candidate"] is not None or payload["seq"] != 0:
            yield "is the first version, and must be fitted on no data"
    elif kind == "deployed":
        candidate = story.candidates.get(payload["candidate"], {"status": "missing"})
        rule_decides = story.revisions[-1]["approval"]["by"] == "schedule"
        waits = candidate["status"] == "waiting" and candidate["planned"]
        at_once = payload["candidate"] == entry["number"] - 1
        if candidate["status"] != "approved" and not (rule_decides and waits and at_once):
            yield f"has a candidate that is {candidate['status']}, not approved by a second person"
        elif any(candidate[key] != payload[key] for key in DEPLOYMENT):
            yield "puts something else in force than the candidate"
    elif kind == "rolled-back":
        earlier = dict(enumerate(story.versions[:-1], start=1)).get(payload["to"], {})
        if any(earlier.get(key) != payload[key] for key in DEPLOYMENT[2:]):
            yield f"does not put the policy of version {payload['to']} in force"
        if payload["seq"] != recorded:
            yield f"counts from row {payload['seq']}, not from the last"


def settled(protocol: Row) -> str:
    """Return what no amendment may change."""
    kept = {name: value for name, value in protocol.items() if name not in AMENDABLE}
    return canonical(kept | {"task": protocol["task"] | {"episodes": None}})


def check_protocol(folder: Path, story: Story, files: Row) -> Iterator[str]:
    for number, protocol in enumerate(story.revisions, start=1):
        name = f"protocol/revision-{number}.json"
        if (folder / name).read_text(encoding="utf-8") != canonical(protocol):
            yield f"{name} is another protocol than the ledger has"
        simulation = protocol.get("simulation", {}).get("digest")
        if simulation and simulation not in files.values():
            yield f"{name}: the report of its simulation is not there"


def read_policy(folder: Path, digest: str) -> tuple[Row, dict[str, Any]]:
    """Return the plain values and the arrays of a policy, in the same form as a body."""
    data = (folder / "policies" / f"{digest}.policy").read_bytes()
    if sha256(data) != digest:
        raise ValueError("it was altered")
    start, arrays = 14 + int.from_bytes(data[10:14], "little"), {}
    header = json.loads(data[14:start])
    for name, dtype, shape in header["arrays"]:
        arrays[name] = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
        start += arrays[name].nbytes
    return header["meta"], arrays


def check_policies(folder: Path, story: Story) -> Iterator[str]:
    """Hold every policy against its digest, and its members against what the ledger says."""
    for told in story.events:
        try:
            meta, arrays = read_policy(folder, told["digest"])
        except BROKEN as error:
            yield f"policy {told['digest']} (version {told['version']}): {error}"
            continue
        axes = {"weights": 2, "whitener": 2 if meta.get("one_hot") else 3, "levels": 1,
                "directions": 2, "offsets": 3}  # fmt: skip
        sizes = [len(array) for name, array in arrays.items() if array.ndim > axes[name]]
        members = max([1, *sizes])
        if (members, meta.get("allocation")) != (told["members"], told["allocation"]):
            yield f"policy {told['digest']} is not allocated as version {told['version']} is"


# --- episodes -------------------------------------------------------------------------------------


def check_assignments(story: Story, assigned: dict[str, Row], count: int) -> Iterator[str]:
    if len(assigned) != count:
        yield "an episode was assigned twice"
    for name, row in assigned.items():
        version = bisect_right(story.assigned_since, row["number"] - 1)
        if row["version"] != version or row["member"] != story.member(version, name):
            yield f"row {row['number']} ({name}) is not of the version and member that were next"
        if story.stopped and row["number"] > story.stopped["assignments"][0]:
            yield f"row {row['number']} ({name}) came after the campaign stopped"


class Log:
    """The log row by row: who played each episode, and what its rows say of each other."""

    def __init__(self, story: Story, assigned: dict[str, Row]) -> None:
        self._story, self._assigned = story, assigned
        self._last: dict[str, Row] = {}
        self.totals: dict[int, dict[str, float]] = defaultdict(dict)
        self.returns: list[Row] = []  # what is counted of each row
        self.wrong: list[str] = []

    def look(self, row: Row, checksum: str) -> None:
        name = row["episode_id"]
        try:
            found = [*(self._corrects if row["revision"] else self._attributed)(row),
                     *self._content(row, checksum)]  # fmt: skip
        except BROKEN as error:
            found = [f"cannot be checked: {error!r}"]
        self._last[name] = {key: row[key] for key in ("seq", "revision", *KEPT)}
        total = None if row["body"] is None else row["total"]
        self.returns.append(self._last[name] | {"episode_id": name, "total": total})
        self.wrong += [f"row {row['seq']} ({name}) {what}" for what in found]

    def _attributed(self, row: Row) -> Iterator[str]:
        """Give what speaks against the version and the member that a first report names."""
        story, seq, name, version = self._story, row["seq"], row["episode_id"], row["version"]
        in_force, intake = bisect_right(story.since, seq - 1), story.protocol_of(seq)["intake"]
        if name in self._last:
            yield "is recorded already"
        if not 1 <= version <= in_force:
            yield f"names version {version}, and {in_force} was in force"
            return
        assigned = self._assigned.get(name)
        if row["assigned"] is not (assigned is not None):
            yield f"is marked assigned = {row['assigned']}"
        if assigned is not None and assigned["version"] != version:
            yield f"was assigned to version {assigned['version']}, not to {version}"
        if assigned is None and intake["assigned"]:
            yield "was not assigned, and the protocol asks so"
        if assigned is None and story.stopped and seq > story.stopped["episodes"][0]:
            yield "was not assigned before the campaign stopped"
        since = seq - 1 - story.since[version] if version < in_force else 0
        if assigned is None and since > intake["grace"]:
            yield f"names version {version}, which was replaced {since} rows before"
        if row["member"] != story.member(version, name):
            yield f"names member {row['member']}, which the allocation does not give"
        if row["late"] is not (version != in_force):
            yield f"is marked late = {row['late']}"
        if row["learn"] is not (version == in_force or intake["late"] == "learn"):
            yield f"is marked learn = {row['learn']}"

    def _corrects(self, row: Row) -> Iterator[str]:
        """Give what speaks against a row that corrects or withdraws an episode."""
        last = self._last.get(row["episode_id"])
        entry = self._story.corrections.pop(row["seq"], {})
        if last is None or row["revision"] != last["revision"] + 1:
            yield "corrects a row that is not there"
            return
        if any(row[key] != last[key] for key in KEPT):
            yield "changes who played what it corrects"
        what = {"episode_id": row["episode_id"], "corrects": last["seq"],
                "withdrawn": row["body"] is None}  # fmt: skip
        if any(entry.get(key) != value for key, value in what.items()):
            yield "is a correction that nobody signed for"

    def _content(self, row: Row, checksum: str) -> Iterator[str]:
        name, version = row["episode_id"], row["version"]
        if row["body"] is None:
            self.totals[version].pop(name, None)
            if not row["revision"]:
                yield "has no content"
            return
        self.totals[version][name] = row["total"]
        if not close(row["total"], sum(row["body"]["rewards"])):
            yield f"has a return of {row['total']}, and its rewards add up to another"
        elif not 0.0 <= row["total"] <= self._story.revisions[0]["task"]["horizon"]:
            yield f"has a return of {row['total']}, which no episode of this task has"
        said = {"claims": row["claims"], "id": name, "body": checksum}
        # Version and member may be left to the campaign; the digest is of what the actor told.
        told = [said | {"version": v, "member": m}
                for v in (None, version) for m in (None, row["member"])]  # fmt: skip
        if row["digest"] not in [sha256(canonical(one)) for one in told]:
            yield "has another digest than the report that it holds"

    def ended(self) -> Iterator[str]:
        yield from self.wrong
        yield from (f"row {seq} corrects nothing, and the ledger says that it does"
                    for seq in self._story.corrections)  # fmt: skip


def check_cohorts(folder: Path, log: Log) -> Iterator[str]:
    for cohort in json.loads((folder / "cohorts.json").read_text(encoding="utf-8")):
        totals = list(log.totals[cohort["version"]].values())
        mean = sum(totals) / len(totals) if totals else None
        told = cohort["mean_return"]
        if cohort["episodes"] != len(totals) or (told is None) != (mean is None):
            yield f"version {cohort['version']} played {len(totals)} episodes"
        elif mean is not None and not close(told, mean):
            yield f"version {cohort['version']} had a mean return of {mean}, not {told}"


# --- the switching rule ---------------------------------------------------------------------------


class Sums:
    """Λ = λI + Σφφᵀ of each pool of steps, and Σφ·r, in the form that rounds least.

    The triangle R of a QR decomposition of all rows (φ, r), under √λ·(I, 0), has RᵀR = Λ in its
    first d columns. Each stage is a pool; where stages share, all steps but those of the last stage
    are one, and all steps another. One-hot features need counts alone.
    """

    def __init__(self, protocol: Row) -> None:
        task, self.ridge = protocol["task"], protocol["recipe"]["ridge"]
        self.dim, self.one_hot, horizon = task["dim"], task["one_hot"], task["horizon"]
        shared = task["stages"] == "shared" and horizon > 1
        each = [range(h, h + 1) for h in range(horizon)]
        self.pools = [range(horizon - 1), range(horizon)] if shared else each
        self.steps = np.array([len(stages) for stages in self.pools], float)
        self.episodes = 0
        start: Any = math.sqrt(self.ridge) * np.eye(self.dim, self.dim + 1)
        if self.one_hot:
            start = np.zeros((self.dim, 2))  # how often, and the rewards
        self.state = [start.copy() for _ in self.pools]
        self.rows: list[list[Any]] = [[] for _ in self.pools]

    def add(self, body: Row) -> None:
        self.episodes += 1
        for pool, stages in enumerate(self.pools):
            for stage in stages:
                if stage < len(body["rewards"]):
                    feature, reward = body["features"][stage], body["rewards"][stage]
                    if self.one_hot:
                        self.state[pool][feature] += 1.0, reward
                    else:
                        self.rows[pool].append([*feature, reward])
        if max(map(len, self.rows)) > 1000:
            self._reduce()

    def _reduce(self) -> None:
        for pool, rows in enumerate(self.rows):
            if rows:
                stacked = np.vstack([self.state[pool], np.array(rows)])
                self.state[pool] = np.linalg.qr(stacked, "r")[: self.dim]
                rows.clear()

    def known(self) -> Row:
        """Return log det Λ and tr Λ of each pool, and the regression of the last stage."""
        self._reduce()
        state = np.array(self.state)
        if self.one_hot:
            diagonal = self.ridge + state[:, :, 0]
            logdet, trace = np.log(diagonal).sum(axis=1), diagonal.sum(axis=1)
            last = state[-1, :, 1] / diagonal[-1]
        else:
            square = state[:, :, : self.dim]
            logdet = 2.0 * np.log(np.abs(np.einsum("pii->pi", square))).sum(axis=1)
            trace = np.square(square).sum(axis=(1, 2))
            last = np.linalg.solve(square[-1], state[-1, :, -1])
        return {"logdet": logdet, "trace": trace, "last": last, "episode": self.episodes + 1}


def own_rule(rule: Row) -> str | None:
    """Return the name of a rule of the user's own, also if it is capped; None for a known rule."""
    while rule["kind"] == "capped":
        rule = rule["schedule"]
    return rule["kind"] if ":" in rule["kind"] else None


def triggers_of(
    rule: Row, task: Row, now: Row, then: Row, steps: Any, deployments: int
) -> list[list[Any]] | None:
    """Return [quantity, value, threshold] of all that a rule watches; None if nobody knows.

    `now` and `then` are what is known, and what was known when the version in force was deployed;
    `steps` how many steps an episode adds to each pool at the most.
    """
    kind, growth = rule["kind"], now["logdet"] - then["logdet"]
    if kind == "capped":
        spent = deployments > rule["switches"]
        return [] if spent else triggers_of(rule["schedule"], task, now, then, steps, deployments)
    if own_rule(rule):
        return None
    if kind == "determinant-growth":
        return [[LARGEST, growth.max(), math.log(rule["eta"])]]
    if kind == "total-growth":
        return [[TOTAL, growth.sum(), rule["log_eta"]]]
    if kind in ("adaptive-budget", "spread-budget"):
        if (left := rule["switches"] - (deployments - 1)) <= 0:
            return []
        dim, episodes = task["dim"], max(0, task["episodes"] + 1 - then["episode"])
        most = then["trace"] + episodes * steps * task["feature_norm"] ** 2
        possible = np.maximum(dim * np.log(most / dim) - then["logdet"], 0.0).sum()
        date = then["episode"] + max(1, math.ceil(episodes / (left + 1)))
        found = [[TOTAL, growth.sum(), possible / (left + 1)], ["episode", now["episode"], date]]
        return found if kind == "spread-budget" else found[:1]
    dates = dates_of(rule, task["episodes"], then["episode"])
    later = [date for date in dates if date > then["episode"]]
    return [["episode", now["episode"], later[0]]] if later else []


def dates_of(rule: Row, episodes: int, deployed: int) -> list[int]:
    """Return the dates of a rule that has fixed them: the first episode of each batch."""
    if rule["kind"] == "every-episode":
        return [deployed + 1]
    if rule["kind"] == "episode-grid":
        return list(rule["dates"])
    batches = rule["batches"]
    if rule["kind"] == "uniform-grid":
        last = rule["spread"] == "last"
        return [i * (episodes // batches) + 1 if last else i * episodes // batches + 1
                for i in range(batches)]  # fmt: skip
    starts = [1]
    for i in range(1, batches):
        share = i / batches if rule["kind"] == "geometric-grid" else 1.0 - 2.0**-i
        starts.append(max(starts[-1] + 1, round(episodes**share)))
    return [start for start in starts if start <= episodes]


def check_triggers(folder: Path, story: Story, unchecked: list[str]) -> Iterator[str]:
    """Replay the log, and compare what each candidate says of its trigger with what it must be.

    What only a rule of the user's own could tell is said in `unchecked`.

    A candidate fitted at a row knows the corrections up to that row, of all that came before: also
    what was known at the deployment before it is counted with these.
    """
    replay, deployments = Replay(folder, story.revisions[0]), 0
    unknown: dict[str, dict[int, None]] = defaultdict(dict)  # candidates, by the rule of one's own
    for event in story.events:
        seq = event["seq"]
        if "evidence" not in event:
            replay.deploy(seq)
            deployments += "to" not in event  # rollbacks are counted apart
            continue
        evidence, number = event["evidence"], event["entry"]["number"]
        name = f"candidate {number}"
        if event["planned"]:
            early = due_before(story, event, replay, deployments, unknown)
            yield from (f"{name}: {what}" for what in early)
        if "triggers" not in evidence or "episodes" not in evidence:
            yield f"{name} says nothing of its trigger"
            continue
        protocol, (now, then) = story.protocol_of(seq), replay.at(seq)
        told = [[one["quantity"], one["value"], one["threshold"]] for one in evidence["triggers"]]
        found = triggers_of(protocol["schedule"], protocol["task"], now, then, replay.sums.steps,
                            deployments)  # fmt: skip
        if evidence["episodes"] != (episodes := replay.sums.episodes):
            yield f"{name} was fitted on {episodes} episodes, not on {evidence['episodes']}"
        if found is None:
            unknown[own_rule(protocol["schedule"]) or ""][number] = None
        else:
            reached = [one["reached"] for one in evidence["triggers"]]
            other = not_reached(told, found, reached, planned=event["planned"])
            yield from (f"{name} {what}" for what in other)
        exploration = protocol["recipe"]["exploration"]
        if exploration["kind"] == "bonus" and not exploration["estimate"]:
            weights = read_policy(folder, event["digest"])[1]["weights"][..., -1, :]
            if not close(weights, np.broadcast_to(now["last"], weights.shape)):
                yield f"{name}: the weights of its last stage are not those of the regression"
    unchecked += [f"{rule} is a rule of the user's own, which this file does not know: whether it "
                  f"asked for candidate {', '.join(map(str, numbers))} was not checked"
                  for rule, numbers in unknown.items()]  # fmt: skip


def not_reached(
    told: list[list[Any]], found: list[list[Any]], reached: list[bool], *, planned: bool
) -> Iterator[str]:
    """Give how what a candidate says of its trigger differs from what the episodes say."""
    same = [one[0] for one in told] == [one[0] for one in found]
    if not same or not close([one[1:] for one in told], [one[1:] for one in found]):
        yield f"says {told}, and the episodes say {found}"
    due = [value >= threshold if quantity == "episode" else value > threshold + GROWTH_TOLERANCE
           for quantity, value, threshold in told]  # fmt: skip
    if due != reached:
        yield "is said to have reached another trigger than it did"
    if planned and not any(due):
        yield "is said to be planned, and none was due"


def due_before(
    story: Story,
    event: Row,
    replay: "Replay",
    deployments: int,
    unknown: dict[str, dict[int, None]],
) -> Iterator[str]:
    """Give where the rule asked for a policy before the row at which a candidate was fitted.

    A rule of the user's own cannot be asked: the candidate is then among its `unknown`.

    What a rule watches never falls, and its threshold stays, while one version is in force, one
    protocol holds and no correction comes in: of the rows of such a stretch the last is enough.
    """
    seq, asked_from = event["seq"], event["asked_from"]
    if seq < asked_from:
        yield f"it was fitted at row {seq}, and the rule was to be asked from row {asked_from} on"
    ends = {seq - 1, *story.revised, *(row - 1 for row in replay.corrected_at)}
    for row in [*sorted(end for end in ends if asked_from <= end < seq), seq]:
        protocol, (now, then) = story.protocol_of(row), replay.at(row)
        if deployments > protocol["budget"]["deployments"]:
            left = "deployment"
        elif replay.sums.episodes >= protocol["task"]["episodes"]:
            left = "episode"
        else:
            left = ""
        if row == seq and left:
            yield f"no {left} was left at row {row}"
        if row == seq or left:
            continue
        rule = protocol["schedule"]
        watched = triggers_of(rule, protocol["task"], now, then, replay.sums.steps, deployments)
        if watched is None:
            unknown[own_rule(rule) or ""][event["entry"]["number"]] = None
            continue
        # By less than the tolerance it may have been due for one and not for the other.
        if any(value >= threshold if quantity == "episode"
               else value > threshold + TOLERANCE * (1.0 + abs(threshold))
               for quantity, value, threshold in watched):  # fmt: skip
            yield f"the rule asked for a policy by row {row} already, not first at row {seq}"
            return


class Replay:
    """The log as it is known at a row: with the corrections up to there, from its beginning."""

    def __init__(self, folder: Path, protocol: Row) -> None:
        self._rows = [(row["episode_id"], row["revision"], row["learn"], steps_of(row["body"]))
                      for row in rows_of(folder, "episodes")]  # fmt: skip
        self.corrected_at = [seq for seq, row in enumerate(self._rows, start=1) if row[1]]
        self._protocol, self._deployed_at = protocol, 0
        self._begin(known_at=0)

    def at(self, seq: int) -> tuple[Row, Row]:
        """Return what is known after a row, and what is then known of the last deployment."""
        if seq < self._seq or any(self._seq < row <= seq for row in self.corrected_at):
            self._begin(known_at=seq)
        return self._upto(seq), self._then

    def deploy(self, seq: int) -> None:
        """Put a version in force that was fitted at a row."""
        self._then, self._deployed_at = self.at(seq)[0], seq

    def _begin(self, known_at: int) -> None:
        self.sums, self._seq = Sums(self._protocol), 0
        self._corrected = {name: steps for name, revision, _, steps in self._rows[:known_at]
                           if revision}  # fmt: skip
        self._then = self._upto(self._deployed_at)

    def _upto(self, seq: int) -> Row:
        for name, revision, learn, steps in self._rows[self._seq : seq]:
            known = self._corrected.get(name, steps)
            if learn and not revision and known is not None:
                self.sums.add(known)
        self._seq = max(self._seq, seq)
        return self.sums.known()


def steps_of(body: Row | None) -> Row | None:
    """Return what is learnt from an episode, without what was offered."""
    return None if body is None else {key: body[key] for key in ("features", "rewards")}


# --- stopping rules -------------------------------------------------------------------------------


class Mean:
    """The mean of observations in [0, 1], with an interval that holds at all looks together.

    The empirical-Bernstein confidence sequence of Waudby-Smith and Ramdas (2023, Theorem 2).
    """

    def __init__(self, observations: Iterable[float] = ()) -> None:
        self.count = 0
        self.total = self.squares = self.weights = self.weighted = self.spread = 0.0
        for x in observations:
            self.add(x)

    def add(self, x: float) -> None:
        self.count = t = self.count + 1
        mean, variance = (0.5 + self.total) / t, (0.25 + self.squares) / t
        weight = min(math.sqrt(2.0 * TUNED_FOR / (variance * t * math.log1p(t))), 0.5)
        self.total += x
        self.squares += (x - (0.5 + self.total) / (t + 1)) ** 2
        self.weights += weight
        self.weighted += weight * x
        self.spread += (x - mean) ** 2 * (-math.log1p(-weight) - weight)

    def ends(self, error: float) -> tuple[float, float]:
        if not self.count:
            return 0.0, 1.0
        centre = self.weighted / self.weights
        width = (math.log(2.0 / error) + self.spread) / self.weights
        return max(0.0, centre - width), min(1.0, centre + width)


class Watched(NamedTuple):
    """What a stopping rule looks at, and whether it has passed the threshold."""

    rule: str
    value: float
    threshold: float
    passed: bool

    @property
    def near(self) -> bool:
        """Whether it may have been on the other side for another machine.

        What equals the threshold is exact: a number of episodes, or an end that was cut off.
        """
        return 0.0 < abs(self.value - self.threshold) <= TOLERANCE

    def is_told(self, told: Row) -> bool:
        numbers = [told[key] for key in ("value", "threshold", "margin")]
        seen = [self.value, self.threshold, self.value - self.threshold]
        return told["rule"] == self.rule and close(numbers, seen)


class Cohorts:
    """The returns of each version and the intake, counted as rows and refusals come."""

    def __init__(self) -> None:
        self._shares: dict[int, dict[str, float | None]] = defaultdict(dict)
        self._means: dict[int, Mean] = {}  # those that were asked for, until a correction
        self._intake, self._episodes = Mean(), 0

    def refuse(self) -> None:
        self._intake.add(1.0)

    def count(self, row: Row, horizon: int) -> None:
        """Count a row: every episode in its place, as it was corrected."""
        name, version, shares = row["episode_id"], row["version"], self._shares[row["version"]]
        share = None if row["total"] is None else row["total"] / horizon
        self._episodes += (share is not None) - (shares.get(name) is not None)
        shares[name] = share
        if row["revision"]:
            self._means.pop(version, None)
            return
        self._intake.add(0.0)
        if version in self._means and share is not None:
            self._means[version].add(share)

    def watched(self, protocol: Row, version: int) -> Iterator[Watched]:
        """Give what each stopping rule watches, in the order in which they are asked."""
        task, episodes = protocol["task"], self._episodes
        for rule in protocol.get("stopping", ()):
            name, error = rule["rule"], 1.0 - rule["confidence"]
            if name == "data-quality":
                low, most = self._intake.ends(error)[0], rule["most"]
                yield Watched(name, low, most, low > most)
            elif episodes >= rule.get("after", 0):
                share = error / (version * (version + 1))  # versions share the error among them
                high = task["horizon"] * self._mean(version).ends(share)[1]
                least = rule["below" if name == "harm" else "target"]
                yield Watched(name, high, least, high < least)
        yield Watched("episodes", episodes, task["episodes"], episodes >= task["episodes"])

    def _mean(self, version: int) -> Mean:
        if version not in self._means:
            shares = self._shares[version].values()
            self._means[version] = Mean(share for share in shares if share is not None)
        return self._means[version]


def in_their_order(
    entries: list[Row], rows: list[Row], refused: list[int]
) -> Iterator[tuple[str, Row]]:
    """Give rows, refusals and entries as they were written, each with its name.

    A refusal came after the row that was the last one then, an entry after all that it reached.
    """
    written = [(row["seq"], 0) for row in rows]
    written += [(seq, number) for number, seq in enumerate(refused, start=1)]
    at, waiting = [0, 0], entries[::-1]
    for seq, number in [(0, 0), *sorted(written)]:
        if number:
            at[1] += 1
            yield f"refusal {number}", {}
        elif seq:
            at[0] += 1
            yield f"row {seq}", rows[seq - 1]
        if at[0] != seq or (number and at[1] != number):
            raise ValueError(f"refusal {number} did not come after row {seq}")
        while waiting and at == [
            waiting[-1]["payload"]["reached"][chain][0] for chain in ("episodes", "refusals")
        ]:
            yield f"entry {waiting[-1]['number']}", waiting.pop()
    if waiting:
        raise ValueError(f"entry {waiting[-1]['number']} was not written where it says")


def check_stops(entries: list[Row], rows: list[Row], refused: list[int]) -> Iterator[str]:
    """Look after every row, refusal, correction and amendment, as the engine had to."""
    story, cohorts = Story(), Cohorts()
    where, seen, missed = "", list[Watched](), False  # the last look, until anything else happens
    for name, event in [*in_their_order(entries, rows, refused), ("the end", {})]:
        kind, payload = event.get("kind"), event.get("payload", {})
        first = next((one for one in seen if one.passed and not one.near), None)
        if kind == "stopped" and named(event["actor"]) == ENGINE:
            upto = seen[: seen.index(first) + 1] if first else seen
            if not any((one.passed or one.near) and one.is_told(payload) for one in upto):
                found = f"after {where} it saw {seen}" if seen else "nothing was looked at there"
                yield f"{name} stops by {payload.get('rule')}, {payload.get('value')}, and {found}"
        elif first and not missed:
            missed = True  # every later look would say so again
            yield f"after {where} {first.rule} was reached, {first.value}, and it went on"
        where, seen, versions = name, [], list[int]()
        if kind:
            story.take(event)
        if kind == "amended":
            versions = [*range(1, len(story.versions) + 1)]
        elif kind == "corrected":
            versions = [rows[payload["seq"] - 1]["version"]]
            if payload["seq"] != payload["reached"]["episodes"][0]:
                yield f"{name} was not entered with the row that it is about"
        elif name.startswith("refusal"):
            cohorts.refuse()
            versions = [len(story.versions)]
        elif name.startswith("row"):
            cohorts.count(event, story.revisions[0]["task"]["horizon"])
            versions = [] if event["revision"] else [event["version"]]
        if not story.stopped:
            seen = [one for v in versions for one in cohorts.watched(story.revisions[-1], v)]


# --- the verdict ----------------------------------------------------------------------------------


def check_files(folder: Path, files: dict[str, str]) -> Iterator[str]:
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for name, digest in files.items():
        if name not in there:
            yield f"{name} is missing"
            continue
        with open(folder / name, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                yield f"{name} was altered"
    strangers = there - set(files) - {"manifest.json"}
    yield from (f"{name} is not part of the export" for name in sorted(strangers))


@dataclass
class Check:
    """One check, what it looked at, and what is wrong: nothing, if all is well.

    `unchecked` says what could not be looked at, and why.
    """

    name: str
    of: str
    wrong: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return "FAILS" if self.wrong else "partly" if self.unchecked else "holds"

    def run(self, problems: Iterable[str]) -> bool:
        """Collect the problems; return whether there are none."""
        try:
            self.wrong.extend(problems)
        except BROKEN as error:
            self.wrong.append(f"it cannot be checked: {error!r}")
        return not self.wrong


def verify(folder: Path, manifest_digest: str | None = None) -> list[Check]:
    """Return all checks; where chains do not hold, what stands on them is not checked."""
    data = (folder / "manifest.json").read_bytes()
    manifest = json.loads(data)
    if manifest["format"] != FORMAT:
        raise ValueError(f"manifest.json is of format {manifest['format']}, not {FORMAT}")
    files, heads, checks = manifest["files"], manifest["heads"], []

    def check(name: str, of: str, problems: Iterable[str]) -> bool:
        checks.append(Check(name, of))
        return checks[-1].run(problems)

    entries: list[Row] = []
    assigned: dict[str, Row] = {}
    refused: list[int] = []
    story = Story()
    log = Log(story, assigned)
    looks: dict[str, Callable[..., Any]] = {
        "ledger": lambda row, _: entries.append(row),
        "assignments": lambda row, _: assigned.setdefault(row["episode_id"], row),
        "refusals": lambda row, _: refused.append(row["seq"]),
        "episodes": log.look,
    }
    given = [] if manifest_digest in (None, sha256(data)) else ["manifest.json is another one"]
    check(
        "files",
        f"{len(files)} files, manifest {sha256(data)}",
        [*check_files(folder, files), *given],
    )
    links: dict[str, dict[int, str]] = {name: {} for name in CHAINS}
    decided, holds = Check("decisions", "versions, budget and signatures"), True
    for name in CHAINS:  # the ledger first: the others are looked at in its light
        problems = check_chain(folder, name, heads[name], links[name], looks[name])
        holds &= check(f"chain of {name}", f"{heads[name][0]} rows", problems)
        if name == "ledger" and holds:
            decided.run(check_decisions(entries, story))
    if not holds:
        return checks
    checks.append(decided)
    check("reached", f"{len(entries)} entries of the ledger", check_reached(entries, links))
    check("protocol", f"{len(story.revisions)} revisions", check_protocol(folder, story, files))
    check("policies", f"{len(story.versions)} versions", check_policies(folder, story))
    count = heads["assignments"][0]
    check("assignments", f"{count} rows", check_assignments(story, assigned, count))
    check("episodes", f"{heads['episodes'][0]} rows", log.ended())
    triggers = Check("triggers", f"{len(story.candidates)} candidates")
    triggers.run(check_triggers(folder, story, triggers.unchecked))
    checks.append(triggers)
    stops = check_stops(entries, log.returns, refused)
    check("stops", f"{heads['episodes'][0]} rows, {heads['refusals'][0]} refusals", stops)
    check("cohorts", f"{len(story.versions)} versions", check_cohorts(folder, log))
    return checks


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the export of a campaign.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--manifest", help="the digest of manifest.json, from the campaign's ledger"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    try:
        checks = verify(given.folder, given.manifest)
    except BROKEN as error:
        print(f"{given.folder} is no export that can be read: {error!r}", file=sys.stderr)
        return 2
    holds = not any(check.wrong for check in checks)
    if given.json:
        print(json.dumps({"holds": holds, "checks": [vars(check) for check in checks]}))
        return int(not holds)
    for check in checks:
        print(f"{check.outcome:<6} {check.name}: {check.of}")
        for line in (*check.wrong, *check.unchecked):
            print(f"         {line}")
    if not holds:
        print("VERDICT: this is NOT what was recorded.")
    elif any(check.unchecked for check in checks):
        print("VERDICT: all that was checked holds; what was not is said above.")
    else:
        print("VERDICT: all of it holds.")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
