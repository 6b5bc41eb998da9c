"""From a TOML file to an experiment: lists are spelled out, and every mistake names file and key.

A list anywhere in an arm stands for one arm for each of its values (so an argument that is itself a
list is written as a list in a list), and {key} in its name and label is filled in.
"""

import json
import math
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any

from pydantic import ValidationError

from rareswitch.experiments.check import check
from rareswitch.experiments.simulated import is_simulated
from rareswitch.experiments.spec import Experiment

PAPER = (
    "figure1", "figure2", "figure3", "mixtures", "lower-bound", "pareto", "switches", "beta",
    "readings", "bounds", "budget", "exploration", "tabular",
)  # fmt: skip
MOST_ARMS = 10_000
Overrides = dict[str, int | None]


def load_spec(path: Path, overrides: Overrides | None = None) -> Experiment:
    """Return the experiment of a TOML file; every error names the file and the key."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    return parse_spec(text, source=str(path), overrides=overrides)


def parse_spec(text: str, *, source: str, overrides: Overrides | None = None) -> Experiment:
    """Return the experiment of TOML text, with some top-level keys replaced."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source}: is not TOML ({error})") from None
    raw |= {key: value for key, value in (overrides or {}).items() if value is not None}
    try:
        experiment = Experiment.model_validate_json(json.dumps(_expanded(raw)), strict=True)
        check(experiment)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the experiment"
        own = first["type"] in ("missing", "value_error")
        given = "" if own else f"; got {repr(first['input'])[:80]}"
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{source}: {key}: {message}{given}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{source}: {error}") from None
    return experiment


def paper_specs() -> dict[str, str]:
    """Return the TOML text of each experiment that comes with the package, by name."""
    folder = Path(__file__).parent / "paper"
    return {name: (folder / f"{name}.toml").read_text(encoding="utf-8") for name in PAPER}


def is_paper(experiment: Experiment) -> bool:
    """Return whether it is one of the paper's, at any number of rounds, episodes and any seed."""
    if experiment.name not in PAPER:
        return False
    scale = experiment.model_dump(include={"rounds", "episodes", "seed"})
    try:
        original = parse_spec(paper_specs()[experiment.name], source="", overrides=scale)
    except ValueError:  # it does not exist at that scale
        return False
    return experiment.digest == original.digest


def _expanded(raw: dict[str, Any]) -> dict[str, Any]:
    """Give every arm the experiment's world and defaults, and spell out its lists."""
    shared = {key: _table(key, raw.pop(key, {})) for key in ("world", "defaults")}
    arms: list[dict[str, Any]] = []
    if not isinstance(raw.get("arms", []), list):
        raise TypeError(f"arms: must be a list of tables; got {raw['arms']!r}")
    for arm in raw.get("arms", []):
        merged = {**_replaceable(shared["defaults"], _table("arms", arm)), **arm}
        merged["world"] = _changed(shared["world"], _table("arms.world", arm.get("world", {})))
        for key in ("schedule", "exploration"):
            _table(f"arms.{key}", merged.get(key, {}))
        arms.extend(_named(one) for one in _one_for_each_value(merged))
    simulated = arms and all(is_simulated(arm["world"].get("kind")) for arm in arms)
    return {"figure": "return" if simulated else "regret", **raw, "arms": arms}


def _replaceable(defaults: dict[str, Any], arm: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults that an arm leaves: its exploration replaces beta, and the other way."""
    own = {"beta", "exploration"} if {"beta", "exploration"} & arm.keys() else set()
    return {key: value for key, value in defaults.items() if key not in own}


def _changed(world: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the experiment's world with an arm's own keys; one of another kind stands alone."""
    other = own.get("kind", world.get("kind")) != world.get("kind")
    return own if other else {**world, **own}


def _one_for_each_value(value: Any, key: str = "arms") -> Iterator[Any]:
    """Yield a value once for each combination of the list values in it."""
    if isinstance(value, list):
        if not value:
            raise ValueError(f"arms: {key} must list at least one value; got none")
        yield from value
    elif isinstance(value, dict):
        parts = [list(_one_for_each_value(part, key)) for key, part in value.items()]
        if (count := math.prod(map(len, parts))) > MOST_ARMS:
            raise ValueError(f"arms: lists must make at most {MOST_ARMS} arms; got {count}")
        for chosen in product(*parts):
            yield dict(zip(value, chosen, strict=True))
    else:
        yield value


def _named(arm: dict[str, Any]) -> dict[str, Any]:
    """Fill in the templates of an arm's name and label, by default the name."""
    world = arm["world"]
    given = world.get("arguments", {})  # those of an environment
    parts = (
        given if isinstance(given, dict) else {},
        world,
        arm.get("exploration", {}),
        arm.get("schedule", {}),
        arm,
    )
    words = {
        key: value
        for part in parts
        for key, value in part.items()
        if key not in ("name", "label") and not isinstance(value, dict)
    }
    name = _filled("name", arm.get("name", ""), words)
    label = _filled("label", arm["label"], words) if "label" in arm else name
    return {**arm, "name": name, "label": label}


def _filled(key: str, template: Any, words: dict[str, Any]) -> str:
    filled = ""
    try:
        for text, field, form, conversion in Formatter().parse(str(template)):
            filled += text
            if field is not None:
                if field not in words or form or conversion:
                    raise ValueError(f"{{{field}}} must be one of {', '.join(sorted(words))}")
                value = words[field]
                filled += str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError as error:
        raise ValueError(f"arms: {key} {template!r} cannot be filled in ({error})") from None
    return filled


def _table(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{key}: must be a table; got {value!r}")
    return value
