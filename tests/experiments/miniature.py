"""Experiments small enough for tests, an executor that computes inline, and hand-made runs."""

from concurrent.futures import Executor, Future

import numpy as np
import pytest

from rareswitch.cli.allow import typed_modules
from rareswitch.experiments.load import paper_specs, parse_spec
from rareswitch.experiments.results import Results, assemble
from rareswitch.experiments.run import find_versions, run_pieces
from rareswitch.experiments.store import Store, cut_into_pieces

WORLD = """
[world]
kind = "hard-to-learn"
d = 5
horizon = 3
"""
PLAIN = """
[defaults]
beta = 1
"""
EVERY = """
[[arms]]
name = "lsvi-ucb"
label = "LSVI-UCB"
schedule = { kind = "every-episode" }
"""
GRID = """
[[arms]]
name = "batch-{batches}"
label = "Batch B={batches}"
schedule = { kind = "uniform-grid", batches = [4, 8] }
"""
GROWTH = """
[[arms]]
name = "rareswitch-{eta}"
label = "RareSwitch η={eta}"
schedule = { kind = "determinant-growth", eta = [2, 8] }
"""
RANDOM = """
[[arms]]
name = "random"
label = "random"
schedule = { kind = "random-policy" }
"""
ALL = EVERY + GRID + GROWTH + RANDOM
SMALLER = {
    "d = 13": "d = 6",
    "horizon = 10": "horizon = 4",
    "states = 20, actions = 8, d = 10": "states = 4, actions = 3, d = 4",
    "[2, 3, 5, 10, 20, 50]": "[2, 5, 10]",
    "[10, 20, 50, 100]": "[10, 50]",
    "[5, 10, 20, 50, 100]": "[5, 10, 50]",
    "[1, 2, 4, 8, 16, 64]": "[1, 4, 40]",
    "36, 72, 144, 360, 720]": "36]",
    "50, 75, 100, 200, 500]": "50]",
    "50, 75, 100, 200, 400]": "50]",
    "[50, 200]": "[50]",
    "[8, 16, 32]": "[2, 3]",
    '"frozen-lake", horizon = 8': '"frozen-lake", horizon = 6',
    "[0.03, 0.1, 0.3, 0.5, 1, 2, 3, 10, 30, 527]": "[0.1, 1]",
}


class Inline(Executor):
    """Compute at once, in this process, and remember what was asked for."""

    def __init__(self):
        self.submitted = []

    def submit(self, fn, /, *args, **kwargs):
        self.submitted.extend(args)
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def toml(*, arms=ALL, world=WORLD, defaults=PLAIN, **top):
    """Return the TOML text of a small experiment, by default with the paper's bonus."""
    settings = {"name": "mini", "title": "Small", "rounds": 3, "episodes": 24} | top
    lines = (
        f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
        for key, value in settings.items()
    )
    return "\n".join(lines) + world + defaults + arms


def experiment(**changes):
    """Return a small experiment; the code that it names is allowed."""
    text = toml(**changes)
    return parse_spec(text, source="mini.toml", allow=typed_modules(text))


def refused(text, *words):
    """Check that the text is refused in one line that names the file and these words."""
    with pytest.raises(ValueError, match="bad") as caught:
        parse_spec(text, source="bad.toml", allow=typed_modules(text))
    message = str(caught.value)
    assert message.count("bad.toml") == 1
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def computed(spec, folder):
    """Return the runs of an experiment, computed in this process."""
    store, pieces = Store(folder), cut_into_pieces(spec)
    run_pieces(pieces, store, Inline())
    return assemble(spec, pieces, store)


def small_paper(*names, rounds=2):
    """Return the paper's experiments of these names, on smaller worlds and without long grids."""
    texts = paper_specs()
    for large, small in SMALLER.items():
        texts = {name: text.replace(large, small) for name, text in texts.items()}
    return [
        parse_spec(texts[name], source=name, overrides={"rounds": rounds, "episodes": 54})
        for name in names or texts
    ]


def save_title(figure, folder):
    """Write a picture with only the title of a figure, in place of `save_figure`."""
    (folder / "figure.svg").write_text(f"<svg><!-- {figure.get_suptitle()} --></svg>")


def handmade(spec, regret, *, switches=(), deployments=()):
    """Return runs with this regret; an arm's number of switches is the same in every round.

    `regret` holds for each arm what broadcasts to (rounds, episodes).
    """
    shape = (spec.rounds, spec.episodes)
    arms = len(spec.arms)

    def first(counts):
        episode = np.arange(spec.episodes)
        counts = np.array(counts) if len(counts) else np.zeros(arms, int)
        return np.broadcast_to((episode < counts.reshape(arms, -1, 1)), (arms, *shape)).copy()

    return Results(
        experiment=spec,
        values=np.stack([np.broadcast_to(np.asarray(arm, float), shape) for arm in regret]),
        deployed=first(deployments),
        switched=first(switches),
        local_switches=np.zeros((arms, spec.rounds), int),
        optimistic=np.ones((arms, spec.rounds)),
        radius=np.zeros((arms, spec.rounds)),
        logdet_growth={arm.name: np.ones((spec.rounds, 3)) for arm in spec.arms},
        cpu_seconds=np.zeros(arms),
        versions=(find_versions(),),
    )
