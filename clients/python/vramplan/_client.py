"""A thin client: every method is one request."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional, cast

from ._program import program
from ._types import Job, Plan, Result


class Problem(Exception):
    """An answer that is no answer: application/problem+json. ``errors`` are the wrong fields of the document, all of them."""

    def __init__(self, document: dict[str, Any]):
        self.document = document
        self.status: int = document.get("status", 0)
        self.code: str = document.get("code", "")
        self.errors: list[dict[str, str]] = document.get("errors", [])
        fields = "; ".join(f"{e.get('pointer', '')}: {e.get('detail', '')}" for e in self.errors)
        super().__init__(fields or document.get("detail") or document.get("title") or "no answer")


class Client:
    """A service at a URL; ``key`` is needed for changes alone."""

    def __init__(self, url: str, key: Optional[str] = None, timeout: float = 30):
        self._url, self._key, self._timeout = url.rstrip("/"), key, timeout

    def _ask(self, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._key:
            headers["Authorization"] = "Bearer " + self._key
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as refused:
            try:
                document = json.load(refused)
            except ValueError:
                document = {"status": refused.code, "detail": f"the service answered {refused.code}"}
            raise Problem(document) from None

    def estimate(self, job: Job) -> Result:
        """What a job takes, and on which of its cards it fits."""
        return cast(Result, self._ask("/v1/estimate", job))

    def plan(self, job: Job, effective_batch: Optional[int] = None) -> Plan:
        """The pairs of micro-batch and accumulation, and the ways to make the job fit."""
        return cast(Plan, self._ask("/v1/plan", {**job, **({"effective_batch": effective_batch} if effective_batch else {})}))

    def compare(self, a: Job, b: Job) -> dict[str, Any]:
        """Why two jobs take different amounts of memory."""
        return cast("dict[str, Any]", self._ask("/v1/compare", {"a": a, "b": b}))

    def read(self, files: dict[str, str], command: str = "") -> dict[str, Any]:
        """Job documents of batch scripts and trainers' configurations: texts by their names."""
        return cast("dict[str, Any]", self._ask("/v1/read", {"files": files, **({"command": command} if command else {})}))

    def gpus(self, q: str = "") -> list[dict[str, Any]]:
        """The cards of the catalog whose names have q."""
        return cast("list[dict[str, Any]]", self._ask("/v1/gpus?page_size=500&q=" + urllib.parse.quote(q))["gpus"])

    def models(self, q: str = "") -> list[dict[str, Any]]:
        """The models of the catalog whose names have q."""
        return cast("list[dict[str, Any]]", self._ask("/v1/models?page_size=500&q=" + urllib.parse.quote(q))["models"])


class _Local:
    """The program of this package, as a service of this process alone: it is started by the first question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._service: Optional[subprocess.Popen[str]] = None
        self._client: Optional[Client] = None

    def client(self) -> Client:
        with self._lock:
            if self._client is None or self._service is None or self._service.poll() is not None:
                self._start()
            return cast(Client, self._client)

    def _start(self) -> None:
        import atexit
        import tempfile

        home = tempfile.TemporaryDirectory(prefix="vramplan-")
        environment = {**os.environ, "VRAMPLAN_LISTEN": "127.0.0.1:0", "VRAMPLAN_DATABASE": f"file:{home.name}/vramplan.db", "VRAMPLAN_LOG_LEVEL": "info"}
        self._service = subprocess.Popen([program(), "serve"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        atexit.register(self._stop, self._service, home)
        log = self._service.stderr
        assert log is not None
        seen = ""
        for line in log:
            seen += line
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("message") == "ready":
                threading.Thread(target=lambda: [None for _ in log], daemon=True).start()
                self._client = Client(entry["url"])
                return
        raise RuntimeError("the program does not start: " + seen)

    @staticmethod
    def _stop(service: "subprocess.Popen[str]", home: Any) -> None:
        service.terminate()
        service.wait(10)
        home.cleanup()


_local = _Local()


def estimate(job: Job) -> Result:
    """What a job takes, answered by the program in this package."""
    return _local.client().estimate(job)


def plan(job: Job, effective_batch: Optional[int] = None) -> Plan:
    """The ways to make a job fit, answered by the program in this package."""
    return _local.client().plan(job, effective_batch)


def compare(a: Job, b: Job) -> dict[str, Any]:
    """Why two jobs take different amounts of memory, answered by the program in this package."""
    return _local.client().compare(a, b)


def read(files: dict[str, str], command: str = "") -> dict[str, Any]:
    """Job documents of other tools' files, read by the program in this package."""
    return _local.client().read(files, command)


def gpus(q: str = "") -> list[dict[str, Any]]:
    """The cards of the built-in catalog whose names have q."""
    return _local.client().gpus(q)


def models(q: str = "") -> list[dict[str, Any]]:
    """The models of the built-in catalog whose names have q."""
    return _local.client().models(q)
