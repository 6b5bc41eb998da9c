"""The static files of the pages; browsers cache them, because their addresses have a digest."""

import os

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from rareswitch.service.pages.rendering import STATIC as FOLDER
from rareswitch.service.pages.rendering import static_url


class KeptFiles(StaticFiles):
    """Files with a digest in their address; other addresses are not cached."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        told = scope["query_string"].decode("latin-1")
        same = static_url(os.path.basename(full_path)).partition("?")[2] == told
        kept = "public, max-age=31536000, immutable" if same else "no-cache"
        response.headers["Cache-Control"] = kept
        return response


STATIC = {"/static": KeptFiles(directory=FOLDER)}
