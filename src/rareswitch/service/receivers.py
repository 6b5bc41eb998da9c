"""Receivers of notices: webhooks and commands.

The person who starts the service names them; a store never does.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import rareswitch

SECRET = "RARESWITCH_WEBHOOK_SECRET"
SECRET_PREFIX = "whsec_"
SHORTEST_SECRET = 24  # bytes
HOW = f"echo {SECRET_PREFIX}$(openssl rand -base64 32)"
Event = Mapping[str, Any]


class NotDeliveredError(Exception):
    """The delivery of an event failed; it is sent again later."""


class Receiver(Protocol):
    """Take an event, or raise NotDeliveredError.

    `name` is the same after a restart; the store keeps the last delivered event under it. `shown`
    is for log lines and has no secret.
    """

    @property
    def name(self) -> str: ...
    @property
    def shown(self) -> str: ...
    def send(self, event: Event) -> None: ...


class Webhook:
    """An address that gets each event as a POST of JSON, signed by Standard Webhooks.

    For each secret the header webhook-signature has v1 and the HMAC-SHA256 of id, timestamp and
    body. Any answer except 2xx is a failure; a redirect is a failure too.
    """

    def __init__(
        self,
        url: str,
        *,
        secrets: Sequence[str],
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            raise ValueError("webhook must be a URL; got text that is no URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
            raise ValueError(f"webhook must be http://… or https://…; got {parts.scheme}://…")
        if "@" in parts.netloc or parts.fragment or " " in url:
            raise ValueError("webhook must not have a user, a fragment or spaces")
        self._url, self._keys = url, [read_secret(secret) for secret in secrets]
        if not self._keys:
            raise ValueError(f"{SECRET} must be the secret of the webhook; make one: {HOW}")
        self._timeout, self._clock = timeout, clock
        self._opener = build_opener(_NoRedirection)
        self.name = f"webhook {hashlib.sha256(url.encode()).hexdigest()[:32]}"
        self.shown = f"{parts.scheme}://{parts.hostname}"

    def send(self, event: Event) -> None:
        """Post the event; any status except 2xx is an error."""
        body = json.dumps(event, ensure_ascii=False).encode()
        told, at = str(event["id"]), str(int(self._clock()))
        headers = {
            "content-type": "application/json",
            "user-agent": f"rareswitch/{rareswitch.__version__}",
            "webhook-id": told,
            "webhook-timestamp": at,
            "webhook-signature": " ".join(f"v1,{sign(key, told, at, body)}" for key in self._keys),
        }
        request = Request(self._url, data=body, headers=headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout):
                return
        except HTTPError as error:
            error.close()
            raise NotDeliveredError(f"answered {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise NotDeliveredError(type(reason).__name__) from None


class _NoRedirection(HTTPRedirectHandler):
    """Refuse redirects, so that only the named host gets the event."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Command:
    """A program that gets each event as JSON on its standard input; status 0 is success.

    It runs without a shell, and without the variables RARESWITCH_*, which may have secrets.
    """

    def __init__(self, arguments: Sequence[str], *, timeout: float = 30.0) -> None:
        if not arguments or shutil.which(arguments[0]) is None:
            given = repr(arguments[0]) if arguments else "nothing"
            raise ValueError(f"notify-command must begin with a program; got {given}")
        self._arguments, self._timeout = list(arguments), timeout
        told = hashlib.sha256("\0".join(arguments).encode()).hexdigest()[:32]
        self.name, self.shown = f"command {told}", os.path.basename(arguments[0])

    def send(self, event: Event) -> None:
        """Run the program and wait for it; any status except 0 is an error."""
        kept = {key: value for key, value in os.environ.items() if "RARESWITCH" not in key}
        try:
            process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env=kept, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NotDeliveredError(error.strerror or type(error).__name__) from None
        try:
            process.communicate(json.dumps(event).encode() + b"\n", timeout=self._timeout)
        except subprocess.TimeoutExpired:
            raise NotDeliveredError(f"did not end within {self._timeout:g} s") from None
        finally:
            with suppress(ProcessLookupError):  # its children too
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            raise NotDeliveredError(f"ended with status {process.returncode}")


def receivers_of(
    webhooks: Sequence[str], commands: Sequence[Sequence[str]], environment: Mapping[str, str]
) -> list[Receiver]:
    """Return the receivers of the command line; secrets come from environment variables."""
    secrets = environment.get(SECRET, "").split()
    found: list[Receiver] = [Webhook(url, secrets=secrets) for url in webhooks]
    return found + [Command(arguments) for arguments in commands]


def read_secret(text: str) -> bytes:
    """Return the key of a secret in the format of Standard Webhooks."""
    try:
        if not text.startswith(SECRET_PREFIX):
            raise ValueError
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        if len(key) < SHORTEST_SECRET:
            raise ValueError
    except (ValueError, binascii.Error):
        raise ValueError(
            f"{SECRET} must be {SECRET_PREFIX} and at least {SHORTEST_SECRET} bytes in base64, or "
            f"several such secrets separated by spaces; make one: {HOW}"
        ) from None
    return key


def sign(key: bytes, told: str, at: str, body: bytes) -> str:
    """Return the signature of an event: HMAC-SHA256 of its id, time and body, in base64."""
    signed = b".".join((told.encode(), at.encode(), body))
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
