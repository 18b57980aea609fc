"""A client and a worker for the HTTP API of dbq, on the standard library alone.

    Client("mail").enqueue({"kind": "send-mail", "payload": {"to": "ann@example.com"}})

    worker = Worker(Client("mail"))
    worker.handle("send-mail", send_mail)
    worker.run()
"""
from __future__ import annotations

import asyncio
import base64
import functools
import http.client
import inspect
import json
import logging
import math
import os
import pathlib
import random
import secrets
import signal
import socket
import threading
import time
import traceback
import urllib.parse
import uuid
from datetime import datetime
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, TypedDict, TypeVar, Union

__all__ = ["Client", "Enqueued", "NewTask", "Outcome", "Problem", "Task", "Worker"]

log = logging.getLogger("dbq_client")

# A task to enqueue. The payload is text, stored as it is, or another value, stored as JSON.
NewTask = TypedDict("NewTask", {
    "kind": str, "payload": Any, "payload_base64": str, "reference": str, "key": str, "priority": int, "run_at": str,
    "delay_seconds": float, "max_attempts": int, "headers": Dict[str, str], "unique": Dict[str, Any], "id": str,
}, total=False)

# The id of a task and, if no task was added, what happened instead. A duplicate may lack the id.
Enqueued = TypedDict("Enqueued", {"id": str, "duplicate": bool, "replaced": bool, "debounced": bool}, total=False)


class Problem(Exception):
    """A response that reports an error.

    `type` is the name that docs/http.md lists, such as "lease-lost", or "" if the response is not one of dbq. `detail`
    is what to do about it, and `errors` are the fields that were refused. If `transient` is set, the same request may
    succeed later.
    """

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: str = "") -> None:
        self.status = int(body.get("status", status))
        prefix, _, name = str(body.get("type", "")).rpartition(":")
        self.type = name if prefix == "urn:dbq:problem" else ""
        self.title = str(body.get("title", "the response is not one of dbq serve"))
        self.detail = str(body.get("detail", ""))
        self.errors: List[Dict[str, str]] = body.get("errors", [])
        self.retry_after = int(retry_after) if retry_after.isdigit() else 0
        again = self.status in (408, 425, 429) or self.type in ("locked", "body-unreadable")
        self.transient = again or self.status >= 500
        self.refused = self.status in (400, 413, 422) and not again  # because of its content
        detail = f": {self.detail}" if self.detail else ""
        fields = "".join(f"; {e['location']}: {e['message']}" for e in self.errors)
        super().__init__(f"{self.title} ({self.status}){detail}{fields}")


class Outcome(Exception):
    """What a handler raises or returns to choose the outcome: Outcome("retry", error="busy", delay_seconds=60)."""

    def __init__(self, outcome: str, **fields: Any) -> None:
        super().__init__(outcome)
        self.fields = {"outcome": outcome, **fields}


class Task:
    """A task that a worker has leased. It has the fields of the API, also those that are not listed here.

    `payload` is text, or bytes if it is not UTF-8. The next heartbeat stores up to 1000 characters of `progress`, with
    which the next attempt begins. `lost` is set if the lease is lost: the handler should return; nothing is stored.
    """

    id: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    created: str
    kind: str = ""
    reference: str = ""
    key: str = ""
    headers: Mapping[str, str] = {}
    payload: Union[str, bytes, None] = None
    progress: Union[str, int, float, None] = None

    def __init__(self, fields: Dict[str, Any], until: float) -> None:
        self._lease: Optional[str] = fields.pop("lease")  # None if it is lost, or the task is being settled
        self._until, self.lost = until, threading.Event()
        self._running: Optional[asyncio.Future[Any]] = None  # an async handler
        self.__dict__.update(fields)
        self._stored = self.progress  # by an earlier attempt
        if "payload_base64" in fields:
            self.payload = base64.b64decode(fields["payload_base64"])

    def json(self) -> Any:
        """Returns the payload, parsed as JSON. If that fails, the Outcome that it raises parks the task."""
        try:
            return json.loads(self.payload or "")
        except ValueError as e:
            raise Outcome("park", error=f"the payload is not JSON: {e}") from e


class Client:
    """Calls the API for a queue, from any number of threads.

    The token is the argument, or the text in the file $DBQ_TOKEN_FILE, or $DBQ_TOKEN.
    """

    def __init__(self, queue: str, url: str = "http://127.0.0.1:8321", database: str = "default",
                 token: Optional[str] = None) -> None:
        at = urllib.parse.urlsplit(url)
        if at.scheme not in ("http", "https") or not at.netloc:
            raise ValueError("the url is not of the form https://host/prefix")
        connect = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        self._connect: Callable[[], http.client.HTTPConnection] = functools.partial(connect, at.netloc)
        self._path = "{}/v1/db/{}/queues/{}/".format(at.path.rstrip("/"), database, urllib.parse.quote(queue, ""))
        self._token = token
        self._idle: List[Tuple[float, http.client.HTTPConnection]] = []  # since when

    def enqueue(self, *tasks: NewTask, patience: float = 5) -> List[Enqueued]:
        """Adds all of the tasks or none, and returns an entry for each.

        While the server does not answer, the call is repeated, which adds no task twice. After about `patience` seconds
        in all it raises the last error.
        """
        if not tasks:
            return []
        ids = [_new_id() for _ in tasks]
        body: Dict[str, List[Dict[str, Any]]] = {"tasks": [{"id": own, **task} for own, task in zip(ids, tasks)]}
        out: List[Enqueued] = self.repeat("tasks/batch", body, threading.Event(), patience, patience / 2)["tasks"]
        for own, enqueued in zip(ids, out):
            if enqueued.get("id") == own:
                enqueued.pop("duplicate", None)  # an earlier call, whose response was lost, has added it
        return out

    def call(self, path: str, body: Mapping[str, Any], timeout: float = 30) -> Dict[str, Any]:
        """Sends one request. Raises Problem, or OSError or HTTPException without a response in `timeout` seconds."""
        file = os.environ.get("DBQ_TOKEN_FILE")  # read each time, as it may be replaced
        token = self._token or (pathlib.Path(file).read_text().strip() if file else os.environ.get("DBQ_TOKEN"))
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        text = json.dumps(body, allow_nan=False)
        try:
            since, connection = self._idle.pop()
        except IndexError:
            since, connection = 0.0, self._connect()
        if time.monotonic() - since > 30:
            connection.close()  # as the server may have done; request connects again
        connection.timeout = timeout
        if connection.sock:
            connection.sock.settimeout(timeout)
        try:
            connection.request("POST", self._path + path, text, headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append((time.monotonic(), connection))
        return _read(response, content)

    def close(self) -> None:
        """Closes the idle connections. The next call connects again."""
        idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def repeat(self, path: str, body: Mapping[str, Any], stop: threading.Event, patience: float = math.inf,
               timeout: float = 30) -> Dict[str, Any]:
        """Calls until the request succeeds or is refused, `stop` is set, or `patience` seconds have passed."""
        end, pause = time.monotonic() + patience, 0.1
        while True:
            try:
                return self.call(path, body, max(min(timeout, end - time.monotonic()), 1))
            except (Problem, OSError, http.client.HTTPException) as e:
                wait = max(pause, min(getattr(e, "retry_after", 0), 60)) * random.uniform(1, 1.5)
                if not getattr(e, "transient", True) or stop.is_set() or time.monotonic() + wait > end:
                    raise
                log.warning("dbq: %s is repeated: %r", path, e)
            stop.wait(wait)
            pause = min(pause * 2, 10)


Handler = Callable[[Task], Any]
H = TypeVar("H", bound=Handler)


class Worker:
    """Calls the handler of each task's kind, for up to `concurrency` tasks at once.

    Each call has a thread of its own. An async handler runs on an event loop, and is cancelled if the lease is lost.
    What a handler returns becomes the task's result; if it raises an exception, the task is retried.
    """

    def __init__(self, client: Client, *, concurrency: int = 10, lease_seconds: float = 30, wait_seconds: float = 5,
                 drain_seconds: float = 30, name: Optional[str] = None) -> None:
        self._client, self._concurrency = client, concurrency
        self._lease_seconds, self._wait_seconds, self._drain_seconds = lease_seconds, wait_seconds, drain_seconds
        self._name = name or f"{socket.gethostname()}/{os.getpid()}"
        self._handlers: Dict[str, Handler] = {}
        self._unknown: Dict[str, float] = {}  # since when tasks of kinds without a handler arrive
        self._line = -math.inf  # when the log had a line about them
        self._tasks: Set[Task] = set()
        self._changed = threading.Condition()  # guards _tasks
        self._renewing = threading.Lock()  # guards the leases
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def handle(self, kind: str, handler: H) -> H:
        """Registers the handler of a kind. That of "" gets the tasks of all other kinds, and those without a kind."""
        if kind in self._handlers:
            raise ValueError(f"the kind {kind!r} already has a handler")
        self._handlers[kind] = handler
        return handler

    def task(self, kind: str) -> Callable[[H], H]:
        """Is handle, as a decorator."""
        return lambda handler: self.handle(kind, handler)

    def run(self) -> None:
        """Works until stop is called or, in the main thread, SIGTERM or SIGINT arrives. Then it drains.

        Raises Problem if the server refuses a checkout. A second signal has its usual effect.
        """
        before: List[Tuple[int, Any]] = []

        def interrupted(*_: object) -> None:
            for number, handler in before:
                signal.signal(number, handler or signal.SIG_DFL)
            self.stop()

        loop = asyncio.new_event_loop()
        thread = _start(loop.run_forever)
        try:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGINT):
                    before.append((number, signal.signal(number, interrupted)))
            self._serve(loop)
        finally:
            interrupted()
            loop.call_soon_threadsafe(loop.stop)
            thread.join(1)  # unless a handler blocks the loop
            if not thread.is_alive():
                loop.close()

    async def run_async(self) -> None:
        """Is run, for a program with an event loop, on which its async handlers then run.

        Signals are left to the program. When it calls stop or cancels run_async, the worker drains.
        """
        serving = asyncio.ensure_future(asyncio.to_thread(self._serve, asyncio.get_running_loop()))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self.stop()
            await serving
            raise

    def stop(self) -> None:
        """Makes run drain and return. It may be called in any thread, and by a signal handler."""
        _start(self._stop)  # a signal handler may have interrupted the holder of the lock

    def _stop(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        _start(self._heartbeat)
        try:
            while not self._stopping.is_set():
                with self._changed:  # on Windows no signal interrupts a wait, so it has a limit
                    self._changed.wait_for(lambda: self._stopping.is_set() or len(self._tasks) < self._concurrency, 1)
                    room = self._concurrency - len(self._tasks)
                if room > 0 and not self._stopping.is_set():
                    self._checkout(room)
        except Exception:
            if not self._stopping.is_set():
                raise
        finally:
            self._drain()
            self._ended.set()
            self._client.close()

    def _checkout(self, room: int) -> None:
        body = {"max": room, "lease_seconds": self._lease_seconds, "wait_seconds": self._wait_seconds,
                "worker": self._name}
        out = self._client.repeat("checkout", body, self._stopping, timeout=self._wait_seconds + 30)
        for fields in out["tasks"]:
            task = Task(fields, time.monotonic() + self._lease_seconds)
            with self._changed:
                self._tasks.add(task)
            handler = self._handlers.get(task.kind) or self._handlers.get("") or self._put_back
            _start(self._work, task, functools.partial(handler, task))

    def _work(self, task: Task, call: Callable[[], Any]) -> None:
        try:
            out = call()
            if inspect.isawaitable(out) and self._loop:
                self._loop.call_soon_threadsafe(self._await, task, out)
                return
        except BaseException as e:
            out = e if isinstance(e, Outcome) else Outcome("fail", error=_text(e))
        try:
            self._settle(task, out.fields if isinstance(out, Outcome) else {"outcome": "complete", "result": out})
        finally:
            with self._changed:
                self._tasks.discard(task)
                self._changed.notify_all()

    def _await(self, task: Task, handler: Any) -> None:  # on the event loop
        task._running = running = asyncio.ensure_future(handler)
        running.add_done_callback(lambda ended: _start(self._work, task, ended.result))
        if task.lost.is_set():
            running.cancel()

    def _put_back(self, task: Task) -> Outcome:
        """Releases a task whose kind has no handler here, as in a rolling deploy. Another worker may have one."""
        now = time.monotonic()
        kind = task.kind if task.kind in self._unknown or len(self._unknown) < 20 else "other kinds"
        since = self._unknown.setdefault(kind, now)
        if now - self._line > 60:
            self._line = now
            kinds = ", ".join(map(repr, list(self._unknown)))
            log.warning("dbq: tasks of kinds without a handler go back to the queue: %s", kinds)
        age = time.time() - datetime.fromisoformat(task.created[:19] + "+00:00").timestamp()
        pause = min(max(min(now - since, age) / 8, 1), 600)
        return Outcome("release", delay_seconds=pause * random.uniform(0.5, 1))

    def _held(self, task: Task) -> Dict[str, Any]:
        held: Dict[str, Any] = {"lease": task._lease}
        if task.progress is not task._stored and isinstance(task.progress, (str, int, float)):
            held["progress"] = str(task.progress)[:1000]  # the API allows 4000 bytes
        return held

    def _settle(self, task: Task, fields: Dict[str, Any]) -> None:
        with self._renewing:
            lease, task._lease = self._held(task), None
        for _ in range(2 if lease["lease"] else 0):
            try:
                body = {"settlements": [{**lease, **fields}]}
                self._client.repeat("settle", body, self._ended, timeout=self._lease_seconds / 3)
                return
            except Exception as e:
                log.warning("dbq: task %s is not settled: %s", task.id, _text(e))
                if isinstance(e, (OSError, http.client.HTTPException)) or isinstance(e, Problem) and not e.refused:
                    return  # another attempt begins when the lease has expired
                fields = {"outcome": "fail", "error": f"the outcome cannot be stored: {_text(e)}"}

    def _heartbeat(self) -> None:
        while not self._ended.wait(self._lease_seconds / 3):
            with self._renewing:
                with self._changed:
                    tasks = [t for t in self._tasks if t._lease]
                if tasks:
                    self._renew(tasks)

    def _renew(self, tasks: Sequence[Task]) -> None:
        begin = time.monotonic()
        body = {"lease_seconds": self._lease_seconds, "leases": [self._held(t) for t in tasks]}
        try:
            leases = self._client.call("extend", body, self._lease_seconds / 3)["leases"]
        except Exception as e:
            log.warning("dbq: the heartbeat failed: %r", e)
            leases = [{}] * len(tasks)
        for task, lease in zip(tasks, leases):
            if "lease" in lease:
                task._lease, task._until = lease["lease"], begin + self._lease_seconds
            elif "problem" in lease or time.monotonic() > task._until:
                log.warning("dbq: the lease of task %s is lost", task.id)
                self._lose(task)

    def _lose(self, task: Task) -> None:
        task._lease = None
        task.lost.set()
        if task._running and self._loop:
            self._loop.call_soon_threadsafe(task._running.cancel)

    def _drain(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks, self._drain_seconds)
            late = list(self._tasks)
        with self._renewing:
            leases = [self._held(t) for t in late if t._lease]
            for task in late:
                self._lose(task)
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks, 1)
        if leases:
            body = {"settlements": [{**lease, "outcome": "release"} for lease in leases]}
            try:
                self._client.repeat("settle", body, self._ended, patience=5)
            except Exception as e:
                log.warning("dbq: %d tasks are not released: %r", len(leases), e)


_last_id, _id_lock = 0, threading.Lock()


def _new_id() -> str:
    """Returns a UUID of version 7. Ids increase, so that tasks are handed out in the order of their enqueue."""
    global _last_id
    with _id_lock:
        at = _last_id = max(time.time_ns() * 4096 // 1_000_000, _last_id + 1)
    return str(uuid.UUID(int=at >> 12 << 80 | 7 << 76 | (at & 0xFFF) << 64 | 2 << 62 | secrets.randbits(62)))


def _read(response: http.client.HTTPResponse, content: bytes) -> Dict[str, Any]:
    try:
        out = json.loads(content)
    except ValueError:
        out = None
    body: Dict[str, Any] = out if isinstance(out, dict) else {}
    problem = body.get("settled", [{}])[0].get("problem") if response.status < 300 and body else body
    if problem is not None:
        raise Problem(response.status, problem, response.headers.get("Retry-After", ""))
    return body


def _start(call: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=call, args=args, daemon=True)  # no handler keeps the process from its end
    thread.start()
    return thread


def _text(e: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(e), e)).strip()  # also of one whose text cannot be read
