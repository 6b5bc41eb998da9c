"""Checks that every page must pass, from its HTML alone."""

from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "link", "input", "br", "hr", "img"}
INLINE = {"a", "strong", "code", "small", "span", "time", "q", "del", "ins", "h2"}
SHAPES = {"line", "rect", "circle", "polygon"}  # of SVG, which close themselves


class Element:
    """An element with its attributes, its ancestors and the text inside it."""

    def __init__(self, tag, attributes, inside):
        self.tag, self.attributes, self.inside = tag, dict(attributes), inside
        self.text = ""

    def __getitem__(self, name):
        return self.attributes.get(name)

    def has(self, name):
        return name in self.attributes

    def is_in(self, other):
        return other in self.inside


class Page(HTMLParser):
    """The elements of a page; a tag that is not closed in its place is an error."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.html, self.elements, self._open = html, [], []
        self.feed(html)
        self.close()
        assert not self._open, [one.tag for one in self._open]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len({*names}) == len(names), (tag, names)
        one = Element(tag, attributes, tuple(self._open))
        self.elements.append(one)
        if tag not in VOID:
            self._open.append(one)

    def handle_startendtag(self, tag, attributes):
        assert tag in SHAPES | {"path"}, tag
        self.elements.append(Element(tag, attributes, tuple(self._open)))

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()
        if tag not in INLINE:
            self.handle_data(" ")

    def handle_data(self, data):
        for one in self._open:
            one.text += data

    def all(self, tag, **attributes):
        return [
            one
            for one in self.elements
            if one.tag == tag and all(one[name] == value for name, value in attributes.items())
        ]

    def inside(self, parent, tag):
        return [one for one in self.all(tag) if one.is_in(parent)]

    @property
    def text(self):
        return " ".join(self.all("body")[0].text.split())


def check_page(html):
    """Check what holds for all pages; return the page."""
    page = Page(html)
    assert html.startswith("<!doctype html>")
    assert page.all("html")[0]["lang"] == "en"
    check_nothing_inline(page)
    check_forms(page)
    check_charts(page)
    check_headings(page)
    ids = [one["id"] for one in page.elements if one["id"] is not None]
    assert len({*ids}) == len(ids), sorted(one for one in ids if ids.count(one) > 1)
    for one in page.elements:
        for name in ("aria-labelledby", "for"):
            assert one[name] is None or one[name] in ids, (one.tag, one.attributes)
    return page


def check_nothing_inline(page):
    """A strict policy of content allows files of the service alone."""
    assert not page.all("style")
    for one in page.elements:
        assert not [name for name in one.attributes if name == "style" or name.startswith("on")]
        for name in ("src", "href", "action"):
            address = one[name]
            assert address is None or address.startswith(("/", "#")), address
            assert address is None or not address.startswith("//"), address
    assert all(one["src"] and not one.text.strip() for one in page.all("script"))


def check_forms(page):
    for form in page.all("form"):
        assert form["method"] == "post"
        fields = page.inside(form, "input")
        assert [one for one in fields if one["name"] == "csrf" and one["type"] == "hidden"], (
            form.attributes
        )
        labelled = {one["for"] for one in page.inside(form, "label")}
        shown = [one for one in fields if one["type"] != "hidden" and not one.has("hidden")]
        shown += page.inside(form, "select") + page.inside(form, "textarea")
        assert all(one["id"] in labelled for one in shown), form.attributes
        names = [one["name"] for one in fields + shown if one["type"] != "checkbox"]
        assert all(names), form.attributes


def check_charts(page):
    """Every chart has a title, and stands in a figure with its numbers in a table."""
    for chart in page.all("svg"):
        if "chart" not in (chart["class"] or ""):
            assert chart["aria-hidden"] == "true"
            assert [one for one in chart.inside if one.tag == "tr"]  # its row has the numbers
            continue
        assert chart["role"] == "img"
        assert page.inside(chart, "title")[0].text
        (figure,) = [one for one in chart.inside if one.tag == "figure"]
        (table,) = page.inside(figure, "table")
        assert len(page.inside(table, "tr")) > 1


def check_headings(page):
    levels = [int(one.tag[1]) for one in page.elements if one.tag in ("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
