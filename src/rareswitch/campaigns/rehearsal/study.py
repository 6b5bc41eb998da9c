"""A planned study: scenarios, and designs that are tried in each, from a TOML file.

A scenario is a possible world. A design is the base protocol with some tables replaced. The file is
data: a simulator that it names runs only if a person allows its module.
"""

import hashlib
import importlib.util
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import rareswitch
from rareswitch.campaigns.protocol import TABLES, Protocol
from rareswitch.campaigns.rehearsal.trial import STORE_ONLY
from rareswitch.campaigns.rehearsal.world import Circumstances, World
from rareswitch.campaigns.rulebook.names import checked_name
from rareswitch.campaigns.rulebook.rows import canonical, digest_of
from rareswitch.support.arguments import flag, short_repr, whole
from rareswitch.support.imports import checked_maker, has_method, load_object, module_of
from rareswitch.support.streams import keyed_hash

ROUNDS = 200
MOST_ROUNDS = 100_000
KEYS = ("protocol", "rounds", "seed", "circumstances", "scenario", "design")
KINDS = ("simulator", "instance", "env")
SCENARIO_KEYS = ("name", "null", *KINDS, "arguments", "circumstances")
DESIGN_KEYS = ("name", *(name for name in TABLES if name not in ("format", "name", "simulation")))
CIRCUMSTANCES = tuple(
    part.name for part in fields(Circumstances) if part.name not in (*STORE_ONLY, "outage")
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A possible world: a `kind` of KINDS, its name and its arguments.

    In a `null` scenario learned policies cannot be better than the control, so a claim is an error.
    """

    name: str
    kind: str
    world: str
    arguments: dict[str, Any] = field(default_factory=dict)
    circumstances: Circumstances = field(default_factory=Circumstances.calm)
    null: bool = False


@dataclass(frozen=True, kw_only=True)
class Study:
    """Scenarios and designs, and the seed of all draws.

    `allow` names the modules that a person allowed, and `folder` is searched for them. `base` is
    the file of the base protocol, if the study was read from files.
    """

    scenarios: tuple[Scenario, ...]
    designs: dict[str, Protocol]
    rounds: int = ROUNDS
    seed: int = 0
    allow: tuple[str, ...] = ()
    folder: str = ""
    base: Path | None = None

    def __post_init__(self) -> None:
        names = [one.name for one in self.scenarios]
        if not names:
            raise ValueError("a study needs a [[scenario]]; it has none")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"[[scenario]] names must differ; got {twice[0]!r} twice")

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        allow: Collection[str] = (),
        rounds: int | None = None,
        seed: int | None = None,
    ) -> "Study":
        """Read a file of scenarios; `rounds` and `seed` replace those of the file."""
        path = Path(path)
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} must be TOML; {error}") from None
        tables = _known(plain, path.name, KEYS)
        named = tables.get("protocol")
        if not isinstance(named, str):
            raise ValueError(f"protocol must be the path of a protocol; got {short_repr(named)}")
        base = path.parent / named
        try:
            protocol = tomllib.loads(base.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"protocol {base} cannot be read ({error.strerror})") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"protocol {base} must be TOML; {error}") from None
        protocol.pop("simulation", None)
        calm = Circumstances.calm()
        with _reading("[circumstances]"):
            shared = _circumstances(tables.get("circumstances", {}), calm)
        rounds = tables.get("rounds", ROUNDS) if rounds is None else rounds
        return cls(
            scenarios=tuple(
                _scenario(table, number, shared)
                for number, table in enumerate(_list(tables, "scenario"), start=1)
            ),
            designs=_designs(protocol, _list(tables, "design"), allow),
            rounds=whole("rounds", rounds, least=2, most=MOST_ROUNDS),
            seed=whole("seed", tables.get("seed", 0) if seed is None else seed, least=0),
            allow=tuple(allow),
            folder=str(path.parent.resolve()),
            base=base,
        )

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Everything that the trials of a round depend on, as plain values, without `rounds`."""
        return {
            "rareswitch": rareswitch.__version__,
            "seed": self.seed,
            "scenarios": [self.plain_scenario(one) for one in self.scenarios],
            "designs": {name: protocol.plain for name, protocol in self.designs.items()},
        }

    def plain_scenario(self, scenario: Scenario) -> dict[str, Any]:
        """Return a scenario as plain values, with a digest of its code."""
        plain = dict(vars(scenario), circumstances=dict(vars(scenario.circumstances)))
        code = source_digest(scenario.world, self.folder) if scenario.kind == "simulator" else ""
        return plain | {"code": code}

    @classmethod
    def from_plain(
        cls, plain: Mapping[str, Any], *, allow: Collection[str] = (), folder: str = ""
    ) -> "Study":
        """Return the study of a `plain` value, for a process without the file."""
        scenarios = []
        for table in plain["scenarios"]:
            told = {name: value for name, value in table.items() if name != "code"}
            told["circumstances"] = Circumstances(**told["circumstances"])
            scenarios.append(Scenario(**told))
        designs = {
            name: Protocol.from_plain(tables, allow=allow)
            for name, tables in plain["designs"].items()
        }
        return cls(
            scenarios=tuple(scenarios),
            designs=designs,
            seed=plain["seed"],
            allow=tuple(allow),
            folder=folder,
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `plain`; trials with equal digests may be counted together."""
        return digest_of(canonical(self.plain))

    def protocol(self, design: str, round_: int) -> Protocol:
        """Return the protocol of a design with the seed of a round.

        The seed of the real study is unknown, so each round draws a seed, the same for all designs.
        """
        found = self.designs[design]
        return replace(found, recipe=replace(found.recipe, seed=(self.seed, round_)))

    def world_seed(self, round_: int) -> int:
        """Return the seed of the world of a round."""
        return keyed_hash(f"world/{self.seed}", round_)


def make_world(scenario: Scenario, protocol: Protocol, seed: int, study: Study) -> World:
    """Return the world of a scenario that names a simulator, module:function."""
    if scenario.kind != "simulator":
        raise ValueError(f"{scenario.kind} must be made by the command line; got {scenario.world}")
    return simulated_world(
        scenario.world, seed, scenario.arguments, allow=study.allow, folder=study.folder
    )


def simulated_world(
    name: str,
    seed: int,
    arguments: Mapping[str, Any],
    *,
    allow: Collection[str],
    folder: str = "",
) -> World:
    """Return the world of a user's function: function(seed, **arguments)."""
    found = load_object(name, allow=allow, folders=[folder] if folder else [])
    made = checked_maker(name, found, ("begin", "step"))(seed, **arguments)
    if not all(has_method(type(made), method) for method in ("begin", "step")):
        raise TypeError(
            f"{name} must return a world with begin(number) and step(place); got {short_repr(made)}"
        )
    world: World = made
    return world


def source_digest(name: str, folder: str = "") -> str:
    """Return the digest of a module's file, without importing it; "" if there is none.

    A file in `folder` takes precedence over an installed module.
    """
    module = module_of(name)
    for place in (Path.cwd(), Path(folder or ".")):
        path = place.joinpath(*module.split(".")).with_suffix(".py")
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
    if "." in module:
        return ""  # finding a submodule would import its package
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return ""
    if found is None or not found.origin or not Path(found.origin).is_file():
        return ""
    return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()


def _scenario(table: Any, number: int, shared: Circumstances) -> Scenario:
    where = f"[[scenario]], number {number}"
    with _reading(where):
        given = _known(table, "", SCENARIO_KEYS)
        if not isinstance(name := given.get("name"), str) or not name.strip():
            raise ValueError(f"name must be a text; got {short_repr(name)}")
    with _reading(f"[[scenario]] {name!r}"):
        kinds = [kind for kind in KINDS if kind in given]
        if len(kinds) != 1:
            told = " and ".join(kinds) or "none of them"
            raise ValueError(f"exactly one of {', '.join(KINDS)} must be given; got {told}")
        if not isinstance(world := given[kinds[0]], str):
            raise TypeError(f"{kinds[0]} must be a text; got {short_repr(world)}")
        if kinds[0] == "simulator" and not (all(world.partition(":")) and world.count(":") == 1):
            raise ValueError(f"simulator must be module:function; got {world!r}")
        arguments = given.get("arguments", {})
        if not isinstance(arguments, dict):
            raise TypeError(f"arguments must be a table; got {short_repr(arguments)}")
        try:
            json.dumps(arguments, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"arguments must be texts, numbers and flags; {error}") from None
        with _reading("circumstances:"):
            circumstances = _circumstances(given.get("circumstances", {}), shared)
        return Scenario(
            name=name,
            kind=kinds[0],
            world=world,
            arguments=arguments,
            circumstances=circumstances,
            null=flag("null", given.get("null", False)),
        )


def _circumstances(table: Any, shared: Circumstances) -> Circumstances:
    return replace(shared, **_known(table, "", CIRCUMSTANCES))


def _designs(
    base: dict[str, Any], tables: Sequence[Any], allow: Collection[str]
) -> dict[str, Protocol]:
    """Return the protocol of each design; without designs, only the base protocol."""
    try:
        agreed = Protocol.from_plain(base, allow=allow)
    except (TypeError, ValueError) as error:
        raise type(error)(f"protocol: {error}") from None
    if not tables:
        return {agreed.name: agreed}
    found: dict[str, Protocol] = {}
    for number, table in enumerate(tables, start=1):
        with _reading(f"[[design]], number {number}"):
            given = _known(table, "", DESIGN_KEYS)
            name = checked_name("name", given.pop("name", None))
            if name in found:
                raise ValueError(f"name must differ from those of other designs; got {name!r}")
        with _reading(f"[[design]] {name!r}"):
            tables_of = merged(base, given) | {"name": f"{agreed.name}-{name}"}
            found[name] = Protocol.from_plain(tables_of, allow=allow)
    return found


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with changes merged in; lists, and rules of another kind, are replaced.

    >>> merged({"budget": {"deployments": 5}}, {"budget": {"deployments": 9}})
    {'budget': {'deployments': 9}}
    >>> merged({"schedule": {"kind": "a", "x": 1}}, {"schedule": {"kind": "b"}})
    {'schedule': {'kind': 'b'}}
    """
    found = dict(base)
    for name, value in changes.items():
        before = found.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            same_kind = value.get("kind", before.get("kind")) == before.get("kind")
            found[name] = merged(before, value) if same_kind else value
        else:
            found[name] = value
    return found


def _list(tables: Mapping[str, Any], name: str) -> list[Any]:
    found = tables.get(name, [])
    if not isinstance(found, list):
        raise TypeError(f"{name} must be a list of tables, [[{name}]]; got {short_repr(found)}")
    return found


def _known(value: Any, name: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return a table, or raise if a key is unknown."""
    where = f"{name} " if name else ""
    if not isinstance(value, Mapping):
        raise TypeError(f"{where}must be a table; got {short_repr(value)}")
    if unknown := [key for key in value if key not in keys]:
        raise ValueError(f"{where}has no key {unknown[0]!r}; it takes {', '.join(keys)}")
    return dict(value)


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Add the table's name to an error about one of its keys."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where} {error}") from None
