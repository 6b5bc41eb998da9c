"""Read experiments from TOML files; every error names the file, the arm and the key.

A list in an arm stands for one arm for each of its values (an argument that is itself a list is
written as a list in a list). {key} in the name and label of an arm is replaced by its value.
"""

import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any

from rareswitch.experiments import FIELD, FIELD_SPEC, PAPER
from rareswitch.experiments.check import check
from rareswitch.experiments.spec import Experiment, read_experiment
from rareswitch.experiments.worlds import check_type, is_simulated
from rareswitch.support.arguments import did_you_mean

MOST_ARMS = 10_000
Overrides = dict[str, int | None]


def load_spec(
    path: Path, overrides: Overrides | None = None, *, allow: Collection[str] = ()
) -> Experiment:
    """Return the experiment of a TOML file.

    It may name code in the folder of the file if `allow` has its module.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    folders = [str(Path.cwd()), str(path.parent.resolve())]
    return parse_spec(text, source=str(path), overrides=overrides, folders=folders, allow=allow)


def parse_spec(
    text: str,
    *,
    source: str,
    overrides: Overrides | None = None,
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
) -> Experiment:
    """Return the experiment of TOML text; `overrides` replace some of its top-level keys."""
    try:
        experiment = _read(_parse(text), overrides, folders, allow)
        check(experiment)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{source}: {error}") from None
    return experiment


def paper_specs() -> dict[str, str]:
    """Return the TOML text of each experiment of the paper, by name."""
    return {name: path.read_text(encoding="utf-8") for name, path in PAPER.items()}


def field_specs() -> dict[str, dict[str, Any]]:
    """Return the tables of the field by name: one experiment for each of its worlds.

    An arm with `only` is played in the worlds with that tag, any other arm in all worlds.
    """
    raw = _parse(FIELD_SPEC.read_text(encoding="utf-8"))
    worlds, arms = raw.pop("worlds"), raw.pop("arms")
    specs = {}
    for world in worlds:
        tags = (None, *world.pop("tags"))
        played = [arm for arm in arms if arm.get("only") in tags]
        own = [{key: value for key, value in arm.items() if key != "only"} for arm in played]
        name = f"{FIELD}-{world['name']}"
        specs[name] = raw | world | {"name": name, "arms": own}
    return specs


def load_own(names: Iterable[str], overrides: Overrides | None = None) -> list[Experiment]:
    """Return experiments of the package by name; `field` stands for all of the field."""
    field = field_specs()
    experiments = []
    for name in names:
        if name in PAPER:
            text = paper_specs()[name]
            experiments.append(parse_spec(text, source=f"{name}.toml", overrides=overrides))
        elif name in field or name == FIELD:
            for own in field if name == FIELD else (name,):
                experiments.append(_read(field[own], overrides))
                check(experiments[-1])
        else:
            single = name.startswith(f"{FIELD}-")
            allowed = ", ".join(field if single else (*PAPER, FIELD, f"{FIELD}-WORLD"))
            meant = did_you_mean(name, (*PAPER, FIELD, *field))
            raise ValueError(f"NAMES must be among {allowed}; got {name}{meant}")
    return experiments


def is_own(experiment: Experiment) -> bool:
    """Return whether the package has this experiment, with any rounds, episodes and seed."""
    name, scale = experiment.name, ("rounds", "episodes", "seed")
    table = _parse(paper_specs()[name]) if name in PAPER else field_specs().get(name)
    overrides = {key: getattr(experiment, key) for key in scale}
    return table is not None and _read(table, overrides).digest == experiment.digest


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not TOML ({error})") from None


def _read(
    raw: dict[str, Any],
    overrides: Overrides | None = None,
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
) -> Experiment:
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    return read_experiment(_expand(raw | given), folders, allow)


def _expand(raw: dict[str, Any]) -> dict[str, Any]:
    """Add the experiment's world and defaults to every arm, and turn list values into arms."""
    world, defaults = (check_type(key, raw.pop(key, {}), dict) for key in ("world", "defaults"))
    arms: list[dict[str, Any]] = []
    for arm in check_type("arms", raw.get("arms", []), list):
        # An arm's beta or exploration replaces either in the defaults.
        either = {"beta", "exploration"}
        replaced = either if either & check_type("arms", arm, dict).keys() else set()
        merged = {key: value for key, value in defaults.items() if key not in replaced} | arm
        own = check_type("arms.world", arm.get("world", {}), dict)
        same = own.get("kind", world.get("kind")) == world.get("kind")
        merged["world"] = {**world, **own} if same else own  # another kind inherits nothing
        for key in ("schedule", "exploration"):
            check_type(f"arms.{key}", merged.get(key, {}), dict)
        arms.extend(_fill_in(one) for one in _combine(merged))
    simulated = arms and all(is_simulated(arm["world"].get("kind")) for arm in arms)
    return {"figure": "return" if simulated else "regret", **raw, "arms": arms}


def _combine(value: Any, key: str = "arms") -> Iterator[Any]:
    """Yield a value once for each combination of the list values in it."""
    if isinstance(value, list):
        if not value:
            raise ValueError(f"arms: {key} must list at least one value; the list is empty")
        yield from value
    elif isinstance(value, dict):
        parts = [list(_combine(part, key)) for key, part in value.items()]
        if (count := math.prod(map(len, parts))) > MOST_ARMS:
            raise ValueError(f"arms: lists must make at most {MOST_ARMS} arms; got {count}")
        for chosen in product(*parts):
            yield dict(zip(value, chosen, strict=True))
    else:
        yield value


def _fill_in(arm: dict[str, Any]) -> dict[str, Any]:
    """Fill in the templates of an arm's name and label."""
    given = arm["world"].get("arguments")  # of an environment
    rule = arm.get("schedule", {})
    tables = (given, arm["world"], arm.get("exploration"), rule.get("schedule"), rule, arm)
    values = {
        key: value
        for table in tables
        if isinstance(table, dict)
        for key, value in table.items()
        if key not in ("name", "label") and not isinstance(value, dict)
    }
    return arm | {key: _fill(key, arm[key], values) for key in ("name", "label") if key in arm}


def _fill(key: str, template: Any, values: dict[str, Any]) -> str:
    filled = ""
    try:
        for text, field, form, conversion in Formatter().parse(str(template)):
            filled += text
            if field is not None:
                if field not in values or form or conversion:
                    raise ValueError(f"{{{field}}} must be one of {', '.join(sorted(values))}")
                value = values[field]
                filled += str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError as error:
        raise ValueError(f"arms: {key} {template!r} cannot be filled in ({error})") from None
    return filled
