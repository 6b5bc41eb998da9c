import re
from importlib import metadata

import pytest

from rareswitch.support import extras


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_nothing_is_said_where_nothing_is_missing(extra):
    extras.require(extra)


def test_what_is_missing_is_named_with_the_command_that_brings_it(monkeypatch):
    there = extras.find_spec
    missing = ("matplotlib", "jinja2")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in missing else there(name))
    with pytest.raises(ImportError) as caught:
        extras.require("experiments")
    assert str(caught.value) == (
        "matplotlib, jinja2 must be installed: pip install '.[experiments]' in a checkout of "
        "rareswitch"
    )
    extras.require("cluster")


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_an_extra_needs_what_the_package_says_it_installs(extra):
    mark = re.compile(rf"""([\w-]+).*extra == ['"]{extra}['"]""")
    installed = {found[1] for found in map(mark.match, metadata.requires("rareswitch")) if found}
    packages = metadata.packages_distributions()
    for name in extras.EXTRAS[extra]:
        assert {package.lower().replace("_", "-") for package in packages[name]} & installed, name
