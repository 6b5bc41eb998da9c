"""The pages: each under a caption, short, in plain English, with links that lead somewhere."""

import ast
import re
from pathlib import Path

import pytest

from docs_tree import install_problems, length_problems, link_problems, prose, tree_problems

ROOT = Path(__file__).parents[1]
INDEX = """# Small

```{toctree}
:caption: Start

start/install
Other title <start/more>
```

```{toctree}
:caption: Reference

reference/cli
reference/api/index
```
"""
PAGES = {
    "docs/index.md": INDEX,
    "docs/start/install.md": "# Install\n\nRun `pip install '.[gym]'`. See [more](more.md#here).\n",
    "docs/start/more.md": "# More\n\n[CLI](../reference/cli.md), ![picture](../_static/a.png)\n",
    "docs/_static/a.png": "",
    "docs/reference/api/index.md": "# API\n\n```{toctree}\n:hidden:\n\nlearning\n```\n",
    "docs/reference/api/learning.md": "# Learning\n",
    "README.md": "# Small\n\n[docs](docs/index.md), [site](https://sphinx-doc.org), [part](#x)\n",
}
CHECKS = (tree_problems, length_problems, install_problems, link_problems)


@pytest.fixture
def small(tmp_path):
    def write(**changed):
        for name, text in (PAGES | changed).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_pages_of_the_project(check):
    assert list(check(ROOT)) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_good_tree_has_no_problems(check, small):
    root = small(**{"docs/_build/html/old.md": "pip install rareswitch [gone](gone.md)"})
    assert list(check(root)) == []


TOO_MANY = "".join(f"p{n}\n" for n in range(9))


@pytest.mark.parametrize(
    ("check", "page", "text", "problem"),
    [
        (tree_problems, "docs/lost.md", "# Lost", "docs/lost.md: no toctree leads to it"),
        (
            tree_problems,
            "docs/reference/api/index.md",
            "# API\n\n```{toctree}\nlearning\ngone\n```\n",
            "docs/reference/api/index.md: there is no docs/reference/api/gone.md",
        ),
        (
            tree_problems,
            "docs/start/more.md",
            "# More\n\n```{toctree}\n../reference/api/learning\n```\n",
            "docs/reference/api/learning.md: 2 toctrees lead to it",
        ),
        (
            tree_problems,
            "docs/index.md",
            f"{INDEX}\n```{{toctree}}\n:caption: Long\n\n{TOO_MANY}```\n",
            "docs/index.md: caption Long has 9 pages, not 8",
        ),
        (
            tree_problems,
            "docs/index.md",
            INDEX.replace(":caption: Start\n", ""),
            "docs/index.md: the toctree with start/install, start/more has no caption",
        ),
        (
            length_problems,
            "docs/start/more.md",
            "# More\n\n" + "word " * 1500,
            "docs/start/more.md: 1501 words, not 1500",
        ),
        (
            length_problems,
            "docs/start/more.md",
            "# More\n\nWhat it is.\n\n:::{note} Title\nThis is what it does.\n:::\n",
            'docs/start/more.md: 2 times "what" in 10 words',
        ),
        (
            install_problems,
            "README.md",
            "# Small\n\n    pip install -U 'rareswitch[gym]'\n",
            "README.md, line 3: pip install -U 'rareswitch[gym]'; write pip install '.[…]'",
        ),
        (
            link_problems,
            "README.md",
            "[a](docs/start/gone.md#x) `[b](gone.md)`\n\n```text\n[c](gone.md)\n```\n",
            "README.md: there is no docs/start/gone.md#x",
        ),
    ],
)
def test_a_problem_is_named(check, page, text, problem, small):
    assert problem in list(check(small(**{page: text})))


def test_code_tables_formulas_and_targets_are_not_prose(small):
    text = """One [two](https://sphinx-doc.org/three)

| three | four |
|---|---|

```python
five = 5
```

$$
six
$$

````{note} three
four
```text
seven
```
five
````

```{include} ../../README.md
:start-after: "not this"
:end-before: "nor"
```
"""
    readme = "not this six nor that"
    page = small(**{"docs/start/more.md": text, "README.md": readme}) / "docs/start/more.md"
    assert prose(page).split() == ["One", "two", "three", "four", "five", "six"]


def test_the_front_page_links_each_page_that_it_lists():
    """A reader of the files sees no toctree."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^[a-z-]+/[a-z/-]+$", text, re.MULTILINE)
    assert len(listed) > 60
    made_at_build = {"reference/cli"}
    assert [one for one in listed if f"({one}.md)" not in text and one not in made_at_build] == []


def test_the_search_words_are_those_of_pages():
    """The build ignores the words of a page that was renamed."""
    text = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    words = ast.literal_eval(re.search(r"^SEARCHES = (\{.*?^\})", text, re.M | re.S)[1])
    assert [page for page in words if not (ROOT / "docs" / f"{page}.md").exists()] == []
