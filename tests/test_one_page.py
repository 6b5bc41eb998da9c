"""examples/one_page.py is RareSwitch, and agrees with the library on every step."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs

PATH = Path(__file__).parent.parent / "examples" / "one_page.py"


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("one_page", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("d", "H", "eta", "K"), [(6, 4, 2.0, 300), (7, 3, 1.3, 200), (13, 10, 8.0, 400)]
)
def test_the_page_and_the_library_agree_on_every_deployment_and_action(page, d, H, eta, K):
    world = rs.worlds.hard_to_learn(d=d, horizon=H, seed=4)
    signs = np.sign(world.mu[:, 0, : d - 2])
    phi, P, r = page.hard_instance(d, H, 0.35, signs)
    np.testing.assert_array_equal(phi, world.features)
    np.testing.assert_allclose(P, world.transitions, atol=1e-12)
    noise = np.random.default_rng(1).random((K, H))
    regret, deployments, actions = page.rare_switch(phi, P, r, K=K, eta=eta, noise=noise)
    recipe = rs.Recipe.paper(beta=1.0, ties="lowest")
    run = rs.simulate(world, rs.DeterminantGrowth(eta=eta), recipe, episodes=K, noise=noise)
    np.testing.assert_array_equal(run.deployment_episodes, deployments)
    np.testing.assert_array_equal(run.actions, actions)
    np.testing.assert_allclose(run.regret, regret, atol=1e-8)


def test_the_page_fits_on_a_page(page):
    assert len(PATH.read_text(encoding="utf-8").splitlines()) <= 110
