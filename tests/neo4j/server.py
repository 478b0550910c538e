"""A Neo4j of the tests' own: its jars brought once by Maven, started on a free port, stopped with its starter.

The jars stay in `~/.cache/headcount/neo4j-VERSION/`, outside the checkout.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import neo4j

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "headcount"
LTS = "5.26.28"
NEWEST = "2026.09.0"
#: What the tests run on.
VERSION = {"": LTS, "lts": LTS, "newest": NEWEST}[os.environ.get("HEADCOUNT_TEST_NEO4J_VERSION", "")]
#: The Java that a version needs, by the number before its first dot.
JAVA_NEEDED = {"5": 17, "2026": 25}
DATABASE, USER, PASSWORD = "neo4j", "neo4j", "for-tests-only"
#: The labels of the truth, all of them our own.
LABELS = (
    "HeadcountTruth",
    "HeadcountWriter",
    "HeadcountCounter",
    "HeadcountOutbox",
    "HeadcountUser",
    "HeadcountGame",
)
START_SECONDS = 240.0
STOP_SECONDS = 30.0
MAVEN_SECONDS = 900.0


class CannotStartError(Exception):
    """Neo4j cannot be had here; the text is one line."""


class Access(NamedTuple):
    """How a Neo4j is reached."""

    uri: str
    user: str
    password: str
    database: str


def given_access() -> Access | None:
    """The Neo4j of HEADCOUNT_TEST_NEO4J_URI (and _USER, _PASSWORD, _DATABASE), whose Headcount data is removed."""
    uri = os.environ.get("HEADCOUNT_TEST_NEO4J_URI")
    if not uri:
        return None
    names = (("USER", USER), ("PASSWORD", PASSWORD), ("DATABASE", DATABASE))
    return Access(uri, *(os.environ.get(f"HEADCOUNT_TEST_NEO4J_{name}", default) for name, default in names))


class Neo4jServer:
    """One Neo4j process. It can be killed and started again: data and port stay.

    Args:
        folder: where it keeps its data; made by `start`.
        version: of Neo4j.
        heap_mb: Java's heap.
    """

    def __init__(self, folder: Path, version: str = VERSION, *, heap_mb: int = 512) -> None:
        self.folder = folder
        self.version = version
        self._heap_mb = heap_mb
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def access(self) -> Access:
        """Where it listens, and who may enter."""
        return Access(f"bolt://127.0.0.1:{self._port}", USER, PASSWORD, DATABASE)

    @property
    def pid(self) -> int:
        """Of the Java process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers.

        Raises:
            CannotStartError: no Java new enough, no Maven, or it did not come up.
        """
        java = find_java(JAVA_NEEDED[self.version.partition(".")[0]])
        jars = bring_jars(self.version)
        first = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "neo4j.conf").write_text(self._conf())
        log = self.folder / "console.log"
        with log.open("ab") as console:
            self._process = subprocess.Popen(
                [
                    str(java),
                    f"-Xmx{self._heap_mb}m",
                    "-XX:+UseSerialGC",
                    "--add-opens=java.base/java.nio=ALL-UNNAMED",
                    "-cp",
                    f"{jars}/*",
                    str(HERE / "Neo4jServer.java"),
                    str(self.folder),
                ],
                stdin=subprocess.PIPE,  # it ends with this pipe, however this process ends
                stdout=subprocess.PIPE,
                stderr=console,
            )
        (self.folder / "pid").write_text(f"{self._process.pid}\n")
        assert self._process.stdout is not None
        watch = threading.Timer(START_SECONDS, self._process.kill)
        watch.start()
        try:
            lines = iter(self._process.stdout.readline, b"")
            ready = any(line.strip() == b"ready" for line in lines)
        finally:
            watch.cancel()
        if not ready:
            self.kill()
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise CannotStartError(f"Neo4j {self.version} did not start: {' '.join(last)}")
        threading.Thread(target=_drain, args=(self._process.stdout,), daemon=True).start()
        if first:
            try:
                self._set_password()
            except BaseException:
                self.kill()
                raise

    def kill(self) -> None:
        """SIGKILL, at any moment."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    def stop(self) -> None:
        """End it as an operator would; killed where it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._wait()

    def _wait(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        (self.folder / "pid").unlink(missing_ok=True)
        self._process = None

    def _conf(self) -> str:
        lines = {
            "server.bolt.enabled": "true",
            "server.bolt.listen_address": f"127.0.0.1:{self._port}",
            "dbms.security.auth_enabled": "true",
            "server.memory.pagecache.size": "256m",
            "dbms.usage_report.enabled": "false",
            "db.tx_log.preallocate": "false",
            "db.tx_log.rotation.size": "32m",
            "db.tx_log.rotation.retention_policy": "keep_none",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _set_password(self) -> None:
        """Nobody may do anything before the first password is changed."""
        deadline = time.monotonic() + START_SECONDS
        with neo4j.GraphDatabase.driver(self.access.uri, auth=(USER, "neo4j")) as driver:
            while True:
                try:
                    driver.execute_query(
                        "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $new", new=PASSWORD, database_="system"
                    )
                except neo4j.exceptions.ServiceUnavailable:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
                else:
                    return


@contextmanager
def running(version: str = VERSION, *, heap_mb: int = 512) -> Iterator[Neo4jServer]:
    """A new Neo4j in a folder of its own, removed with it."""
    with tempfile.TemporaryDirectory(prefix="hc-neo4j-") as folder:
        server = Neo4jServer(Path(folder) / "home", version, heap_mb=heap_mb)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def find_java(needed: int) -> Path:
    """The oldest JDK here that is new enough (a server starts from source, so a JRE will not do).

    Raises:
        CannotStartError: there is none.
    """
    homes = [Path(path) for name, path in os.environ.items() if re.match(r"JAVA_?HOME|JDK_?HOME", name) and path]
    homes += [path for path in Path("/usr/lib/jvm").glob("*") if path.is_dir()]
    on_path = shutil.which("javac")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parents[1])
    found: list[tuple[int, Path]] = []
    for home in homes:
        release = home / "release"
        if not (home / "bin" / "javac").exists() or not release.exists():
            continue
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(errors="replace"), re.MULTILINE)
        if version is not None and int(version[1]) >= needed:
            found.append((int(version[1]), home / "bin" / "java"))
    if not found:
        raise CannotStartError(f"no JDK {needed} or newer was found")
    return min(found)[1]


def bring_jars(version: str) -> Path:
    """The folder with Neo4j's jars, brought by Maven the first time.

    Raises:
        CannotStartError: there is no Maven, or it could not bring them.
    """
    jars = CACHE / f"neo4j-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"neo4j-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes side by side want the same jars
        if jars.is_dir():
            return jars
        maven = shutil.which("mvn")
        if maven is None:
            raise CannotStartError(f"Neo4j {version} is not in {CACHE}, and there is no Maven to bring it")
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            done = subprocess.run(
                [
                    maven,
                    *("--batch-mode", "--quiet", "--file", str(HERE / "pom.xml")),
                    f"-Dneo4j.version={version}",
                    "dependency:copy-dependencies",
                    "-DincludeScope=runtime",
                    f"-DoutputDirectory={scratch}/jars",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=MAVEN_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                errors = [line for line in done.stdout.decode(errors="replace").splitlines() if "ERROR" in line]
                raise CannotStartError(f"Maven did not bring Neo4j {version}: {' '.join(errors[:1])[:300]}")
            (Path(scratch) / "jars").rename(jars)
    return jars


def _drain(stream: object) -> None:
    """Read what the server prints, so that it never waits for a full pipe."""
    try:
        for _ in stream:  # type: ignore[attr-defined]  # a pipe
            pass
    except ValueError:
        pass  # closed with the process


def wipe(access: Access) -> None:
    """Remove everything of Headcount's, and nothing else: constraints and indexes stay."""
    with neo4j.GraphDatabase.driver(access.uri, auth=(access.user, access.password)) as driver:
        for label in LABELS:
            driver.execute_query(f"MATCH (n:{label}) DETACH DELETE n", database_=access.database)


if __name__ == "__main__":  # is there a Java here that this version runs on?
    try:
        print(find_java(JAVA_NEEDED[{"lts": LTS, "newest": NEWEST}[sys.argv[1]].partition(".")[0]]))  # noqa: T201
    except CannotStartError as error:
        sys.exit(f"the {sys.argv[1]} Neo4j is not tried: {error}")
