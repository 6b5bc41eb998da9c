"""Files of `deploy/`: as far as they can be run without a container engine, they are run."""

import datetime
import re
import shlex
import socket
import ssl
import subprocess
import threading
import time
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rareswitch.cli import main

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HOST = "trial.example.org"
PATIENCE = 30.0
BETWEEN = 0.5  # seconds between two events of a stream


def options_of(arguments):
    """Let the command read the arguments of `rareswitch serve`, as it would; return its options."""
    assert arguments[0] == "serve"
    command = main.commands["serve"]
    return command.make_context("serve", list(arguments[1:])).params


# systemd


def test_the_unit_is_one_that_systemd_accepts(tmp_path):
    text = (DEPLOY / "rareswitch.service").read_text()
    program = tmp_path / "rareswitch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "rareswitch.service"
    unit.write_text(text.replace("/opt/rareswitch/bin/rareswitch", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    mine = [line for line in done.stderr.splitlines() if "rareswitch" in line]
    assert (done.returncode, mine) == (0, [])
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystem=surely"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    assert "surely" in done.stderr  # a wrong value is noticed


def test_the_unit_starts_the_service_on_the_loopback_and_exposes_little():
    text = (DEPLOY / "rareswitch.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert program == "/opt/rareswitch/bin/rareswitch"
    options = options_of(arguments)
    assert options["bind"] == "127.0.0.1:8000"
    assert options["public_url"] == f"https://{HOST}"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(DEPLOY / "rareswitch.service")],
        capture_output=True, text=True,
    )  # fmt: skip
    (exposure,) = re.findall(r"Overall exposure level for .*: ([0-9.]+) ", done.stdout)
    assert float(exposure) < 2.0


# Containers


@pytest.fixture
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_services_of_the_compose_file_start_as_the_command_allows(compose):
    services = compose["services"]
    assert {*services} == {"database", "service", "service-two", "learner", "proxy"}
    learners = 0
    for name in ("service", "service-two", "learner"):
        one = services[name]
        options = options_of([str(word) for word in one["command"]])
        learners += options["learner"]
        assert one["environment"]["RARESWITCH_STORE"].startswith("postgresql://rareswitch:")
        assert one["environment"]["RARESWITCH_STORE"].endswith("@database/trial")
        assert one["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert one["cap_drop"] == ["ALL"]
        assert "ports" not in one  # only the proxy is reached from outside
    assert learners == 1
    assert services["service"] == services["service-two"]
    assert services["learner"]["command"][2].startswith("127.0.0.1:")
    assert "ports" not in services["database"]
    assert services["database"]["networks"] == ["inside"]


def test_names_in_the_compose_file_are_declared(compose):
    services = compose["services"]
    for one in services.values():
        assert {*one.get("networks", [])} <= {*compose["networks"]}
        for volume in one.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists()
        assert {*one.get("depends_on", [])} <= {*services}
        if "build" in one:
            context = (DEPLOY / one["build"]["context"]).resolve()
            assert (context / one["build"]["dockerfile"]).is_file()
            assert context == ROOT
    upstream = services["proxy"]["environment"]["RARESWITCH_UPSTREAM"].split()
    assert {one.partition(":")[0] for one in upstream} <= {*services}
    (network,) = compose["networks"]["inside"]["ipam"]["config"]
    trusted = services["service"]["environment"]["FORWARDED_ALLOW_IPS"]
    assert trusted == network["subnet"]


def test_the_container_file_copies_files_that_exist_and_starts_the_service():
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    known = {
        "FROM", "COPY", "RUN", "USER", "WORKDIR", "VOLUME", "ENV", "EXPOSE", "STOPSIGNAL",
        "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    assert {word for word, _ in lines} == known
    for word, rest in lines:
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
    told = {word: yaml.safe_load(rest) for word, rest in lines if word in ("ENTRYPOINT", "CMD")}
    assert told["ENTRYPOINT"] == ["rareswitch"]
    assert options_of(told["CMD"])["bind"] == "0.0.0.0:8000"
    assert dict(map(tuple, lines))["USER"] == "10001"


def test_the_caddy_file_names_the_same_host_limit_and_upstream():
    text = (DEPLOY / "Caddyfile").read_text()
    assert re.search(rf"^{HOST} {{$", text, re.MULTILINE)
    assert "max_size 17MB" in text
    assert "{$RARESWITCH_UPSTREAM:127.0.0.1:8000}" in text
    assert text.count("{") == text.count("}")


# nginx


class Upstream(BaseHTTPRequestHandler):
    """In place of the service: tells what it was sent, and streams two events."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if not self.path.endswith("/live"):
            self.tell({name.lower(): value for name, value in self.headers.items()})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in (1, 2):
            event = f"data: {number}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
            time.sleep(BETWEEN)
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        length = int(self.headers["content-length"])
        while length:
            length -= len(self.rfile.read(min(length, 65536)))
        self.tell({"length": int(self.headers["content-length"])})

    def tell(self, told):
        data = yaml.safe_dump(told).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def certificate(folder):
    """Write a key and a certificate that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = serialization.PrivateFormat.PKCS8
    (folder / "privkey.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Proxy:
    """nginx with the file of `deploy/`, on free ports of this machine."""

    def __init__(self, folder, upstream):
        self.plain, self.secure, self.folder = free_port(), free_port(), folder
        text = (DEPLOY / "nginx.conf").read_text()
        text = re.sub(r"^ *listen \[::\].*\n", "", text, flags=re.MULTILINE)
        for old, new in (
            ("server 127.0.0.1:8000;", f"server 127.0.0.1:{upstream};"),
            ("listen 80;", f"listen 127.0.0.1:{self.plain};"),
            ("listen 443 ssl", f"listen 127.0.0.1:{self.secure} ssl"),
            ("/etc/ssl/rareswitch", str(folder)),
        ):
            assert old in text
            text = text.replace(old, new)
        certificate(folder)
        (folder / "site.conf").write_text(text)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        (folder / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n"
            f"events {{}}\nhttp {{\naccess_log off;\n{places}\ninclude {folder}/site.conf;\n}}\n"
        )
        self.command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.secure), 1.0).close()
                return self
            except OSError:
                assert self.process.poll() is None, self.process.stderr.read()
                assert time.monotonic() < end
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def connect(self):
        trusted = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
        return _Connection(self.secure, trusted)


class _Connection(HTTPSConnection):
    """Connects to this machine under the name of the certificate."""

    def __init__(self, port, context):
        super().__init__(HOST, port, context=context, timeout=PATIENCE)
        self._trusted = context

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), self.timeout)
        self.sock = self._trusted.wrap_socket(plain, server_hostname=HOST)


@pytest.fixture(scope="module")
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory, upstream):
    with Proxy(tmp_path_factory.mktemp("nginx"), upstream) as found:
        yield found


def test_nginx_accepts_the_file(proxy):
    done = subprocess.run([*proxy.command, "-t"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr.replace('the "user" directive', "")


def test_forwarded_headers_are_those_of_the_proxy(proxy):
    connection = proxy.connect()
    forged = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "http", "Forwarded": "for=6.6.6.6"}
    connection.request("GET", "/v1/campaigns", headers=forged)
    answer = connection.getresponse()
    told = yaml.safe_load(answer.read())
    connection.close()
    assert told["x-forwarded-for"] == "127.0.0.1"
    assert told["x-forwarded-proto"] == "https"
    assert told["host"] == HOST
    assert "forwarded" not in told
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_plain_requests_are_sent_to_the_secure_address(proxy):
    connection = HTTPConnection("127.0.0.1", proxy.plain, timeout=PATIENCE)
    connection.request("GET", "/studies/doors?x=1", headers={"Host": "evil.example"})
    answer = connection.getresponse()
    assert answer.status == 301
    assert answer.headers["location"] == f"https://{HOST}/studies/doors?x=1"
    connection.close()


@pytest.mark.parametrize(("size", "status"), [(16 * 2**20, 200), (18 * 2**20, 413)])
def test_bodies_that_the_service_takes_pass_and_larger_ones_do_not(proxy, size, status):
    connection = proxy.connect()
    try:
        connection.request("POST", "/v1/campaigns/doors/episodes", body=bytes(size))
    except OSError:  # the line was cut while we sent
        assert status == 413
    answer = connection.getresponse()
    assert answer.status == status
    connection.close()


def first_event(proxy):
    """Return the seconds until the first event of the stream, and until its end."""
    connection = proxy.connect()
    began = time.monotonic()
    connection.request("GET", "/v1/campaigns/doors/live")
    answer = connection.getresponse()
    assert answer.readline() == b"data: 1\n"
    first = time.monotonic() - began
    answer.read()
    connection.close()
    return first, time.monotonic() - began


def test_live_events_are_not_held_back(proxy, upstream, tmp_path):
    first, last = first_event(proxy)
    assert last - first > BETWEEN
    buffering = Proxy(tmp_path, upstream)
    site = tmp_path / "site.conf"
    site.write_text(site.read_text().replace("proxy_buffering off;", "proxy_buffering on;"))
    with buffering:
        first, last = first_event(buffering)
    assert last - first < BETWEEN  # so the setting is needed


def test_metrics_are_for_this_machine_alone(proxy, upstream, tmp_path):
    def status_of(found):
        connection = found.connect()
        connection.request("GET", "/metrics")
        status = connection.getresponse().status
        connection.close()
        return status

    assert status_of(proxy) == 200
    other = Proxy(tmp_path, upstream)
    site = tmp_path / "site.conf"
    site.write_text(site.read_text().replace("allow 127.0.0.1;", "allow 10.0.0.1;"))
    with other:
        assert status_of(other) == 403
