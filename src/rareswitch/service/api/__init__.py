"""The endpoints of the API, by the people who use them."""

from rareswitch.service.api.decide import decide
from rareswitch.service.api.field import field
from rareswitch.service.api.look import look
from rareswitch.service.api.people import people
from rareswitch.service.api.personalizer import personalizer
from rareswitch.service.endpoint import Endpoint

# Paths are compared in this order, so the busiest come first.
ENDPOINTS: tuple[Endpoint, ...] = (
    *field.all, *look.all, *decide.all, *people.all, *personalizer.all,
)  # fmt: skip
