"""The address of a campaign, its token, and requests of httpx."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from rareswitch.campaigns.client.exchange import Answer, OfflineError, Request
from rareswitch.campaigns.client.folder import Folder
from rareswitch.campaigns.rulebook.names import checked_name
from rareswitch.support.arguments import short_repr

TOKEN = "RARESWITCH_TOKEN"


class Address:
    """The address of a campaign at a server, and the token; the token is never shown."""

    def __init__(self, url: str, campaign: str, token: str | None, *, insecure: bool) -> None:
        self.campaign = checked_name("campaign", campaign)
        self.server = _checked_url(url, insecure=insecure)
        self._base = f"{self.server}/v1/campaigns/{quote(self.campaign, safe='')}"
        self._token = _checked_token(os.environ.get(TOKEN) if token is None else token)

    def arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments of httpx for a request."""
        authorization = {"Authorization": f"Bearer {self._token}"}
        return {
            "method": request.method,
            "url": self._base + request.path,
            "content": request.content,
            "headers": request.headers | authorization,
        }

    def folder(self, path: str | os.PathLike[str] | None) -> Folder:
        """Open the folder of this campaign and server."""
        if path is None:
            state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
            path = Path(state) / "rareswitch"
        return Folder(path, self.server, self.campaign)

    def offline(self, error: Exception) -> OfflineError:
        """Return the error of an unanswered request."""
        said = str(error) or type(error).__name__
        return OfflineError(f"the server {self.server} cannot be reached ({said})")

    def __repr__(self) -> str:
        return f"{self.server!r}, campaign={self.campaign!r}"


def settings(timeout: float, transport: Any) -> Mapping[str, Any]:
    """Return the settings of httpx; redirects are not followed, to protect the token."""
    return {"timeout": timeout, "transport": transport, "follow_redirects": False}


def answer_of(response: httpx.Response) -> Answer:
    """Return the answer of a fully read response."""
    return Answer(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=response.content,
    )


def _checked_url(url: Any, *, insecure: bool) -> str:
    try:
        found = httpx.URL(url)
    except (TypeError, httpx.InvalidURL):
        raise ValueError(
            f"url must be an address such as https://…; got {short_repr(url)}"
        ) from None
    if found.scheme not in ("http", "https") or not found.host or found.userinfo or found.query:
        raise ValueError(
            "url must be https:// and a host, without a user and a query; got "
            f"{found.scheme}://{found.host}"
        )
    if found.scheme == "http" and not insecure and not _is_loopback(found.host):
        raise ValueError(
            "url must begin with https://, or the token can be read on the way; got "
            f"http://{found.host}. On a network that you trust, pass insecure=True"
        )
    return str(found).rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _checked_token(token: Any) -> str:
    """Return a token that is valid in a header; an error does not repeat it."""
    if not isinstance(token, str) or not token.strip():
        raise ValueError(f"token must be given, or be in the environment as {TOKEN}; got none")
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("token must be visible ASCII characters without spaces")
    return token
