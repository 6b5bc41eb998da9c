"""The HTML pages: complete without JavaScript, and live with it."""

from rareswitch.service.endpoint import Endpoint
from rareswitch.service.pages.deciding import deciding
from rareswitch.service.pages.entering import entering
from rareswitch.service.pages.files import STATIC
from rareswitch.service.pages.looking import looking, render_problem

PAGES: tuple[Endpoint, ...] = (*looking.all, *deciding.all, *entering.all)

__all__ = ["PAGES", "STATIC", "render_problem"]
