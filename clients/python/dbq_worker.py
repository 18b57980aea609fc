"""A client and a worker for dbq's HTTP API, on the standard library alone: copy this file. See docs/clients.md."""
import base64, http.client, json, logging, os, pathlib, queue, random, signal, threading, time, types, urllib.parse


class Problem(Exception):
    """An error response. `type` is that of docs/http.md. A transient one may go if the request is repeated."""
    def __init__(self, status, body, retry_after):
        fields = "".join(f"; {e['location']}: {e['message']}" for e in body.get("errors", []))
        detail = f": {body['detail']}" if body.get("detail") else ""
        super().__init__(f"{body.get('title', 'the request failed')} ({status}){detail}{fields}")
        self.type, self.retry_after = body.get("type"), int(retry_after) if retry_after.isdigit() else 0
        self.transient = status >= 500 or status in (408, 429) or self.type == "urn:dbq:problem:locked"


class Outcome(Exception):
    """What a handler raises or returns to choose the outcome: Outcome("retry", error="busy", delay_seconds=60)."""
    def __init__(self, outcome, **fields):
        self.fields = {"outcome": outcome, **fields}


class Client(threading.local):  # __init__ runs in each thread, so each has a connection of its own
    """Calls the API for a queue. The token is the argument, the text in the file $DBQ_TOKEN_FILE, or $DBQ_TOKEN."""
    def __init__(self, queue, url="http://127.0.0.1:8321", database="default", token=None):
        at = urllib.parse.urlsplit(url)
        connect = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        self.connection, self.token = connect(at.netloc), token
        self.path = "{}/v1/db/{}/queues/{}/".format(at.path.rstrip("/"), database, urllib.parse.quote(queue, ""))

    def call(self, path, body, timeout=90):
        """Sends a request. Raises Problem, or OSError or HTTPException if no response arrives in `timeout` seconds."""
        self.connection.timeout = timeout
        if self.connection.sock:
            self.connection.sock.settimeout(timeout)
        file = os.environ.get("DBQ_TOKEN_FILE")  # read each time, as it may be replaced
        token = self.token or (pathlib.Path(file).read_text().strip() if file else os.environ.get("DBQ_TOKEN"))
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            self.connection.request("POST", self.path + path, json.dumps(body, allow_nan=False), headers)
            response = self.connection.getresponse()
            text = response.read()
        except BaseException:
            self.connection.close()  # the next request connects again
            raise
        out = json.loads(text) if response.headers.get_content_subtype().endswith("json") else {}
        if (problem := out if response.status >= 300 else out.get("settled", [{}])[0].get("problem")) is not None:
            raise Problem(problem.get("status", response.status), problem, response.headers.get("Retry-After", ""))
        return out

    def repeat(self, path, body, stop, patience=float("inf"), timeout=None):
        """Calls until the request succeeds or is refused, stop is set, or `patience` seconds have passed. A call waits
        for `timeout` seconds. By default that is a third of the patience, but 10 to 90 seconds."""
        end, pause = time.monotonic() + patience, 0.05
        timeout = timeout or min(max(patience / 3, 10), 90)
        while True:
            try:
                return self.call(path, body, timeout)
            except (Problem, OSError, http.client.HTTPException) as e:
                if not getattr(e, "transient", True) or stop.is_set() or time.monotonic() > end:
                    raise
                logging.warning("dbq: %s is repeated: %s", path, e or type(e).__name__)
                pause = min(pause * 2, 10)
                stop.wait(max(pause, min(getattr(e, "retry_after", 0), 60)) * random.uniform(1, 1.5))

    def enqueue(self, *tasks, patience=30):
        """Adds all of the tasks or none. A task is a dict of the API's fields. Returns a dict for each: its id and, if
        it existed before, duplicate: True. While the server is away, the call is repeated for `patience` seconds."""
        named = [{"reference": os.urandom(16).hex(), **t} for t in tasks]  # a reference makes the request repeatable
        out = self.repeat("tasks/batch", {"tasks": named}, threading.Event(), patience)["tasks"]
        return [e if {"reference", "id", "unique"} & t.keys() else {"id": e["id"]} for t, e in zip(tasks, out)]


class Worker:
    """Calls handler(task) in up to `concurrency` threads. What the handler returns becomes the task's result.
    A task has the API's fields as attributes. task.payload is text, or bytes if they are not UTF-8. Heartbeats store
    task.progress, a text. If the lease is lost they set task.lost, an event: the handler should then return."""
    def __init__(self, client, handler, concurrency=4, lease_seconds=30, wait_seconds=5, drain_seconds=30, name="py"):
        self.client, self.handler, self.concurrency = client, handler, concurrency
        self.lease_seconds, self.drain_seconds = lease_seconds, drain_seconds
        self.poll = {"lease_seconds": lease_seconds, "wait_seconds": wait_seconds, "worker": name}
        self.tasks, self.queue, self.changed = [], queue.SimpleQueue(), threading.Condition()
        self.renewing, self.stopping, self.ended = threading.Lock(), threading.Event(), threading.Event()

    def run(self):
        """Works until SIGTERM or stopping.set(), then drains. Raises Problem if the server refuses a checkout."""
        for target in [self._heartbeat] + [self._work] * self.concurrency:
            threading.Thread(target=target, daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=self.stopping.set).start())
        try:
            while not self.stopping.is_set():
                with self.changed:
                    room = self.changed.wait_for(lambda: self.concurrency - len(self.tasks), 1)
                if room and not self.stopping.is_set():
                    self._checkout({**self.poll, "max": room})
        except Exception:
            if not self.stopping.is_set():
                raise
        finally:
            with self.changed:
                self.changed.wait_for(lambda: not self.tasks, self.drain_seconds)
            for task in list(self.tasks):  # their handlers are too slow, and end with the process
                task.lost.set()
                self._settle(task, {"outcome": "release"}, 1)
            self.ended.set()
            self.queue.put(None)

    def _checkout(self, body):
        for fields in self.client.repeat("checkout", body, self.stopping)["tasks"]:
            payload = base64.b64decode(fields.get("payload_base64", "")) or None
            fields = {"kind": None, "payload": payload, "progress": None, **fields, "lost": threading.Event()}
            self.tasks.append(types.SimpleNamespace(**fields, until=time.monotonic() + self.lease_seconds))
            self.queue.put(self.tasks[-1])

    def _work(self):
        while task := self.queue.get():  # None is for all threads
            try:
                out = self.handler(task)
            except BaseException as e:
                out = e if isinstance(e, Outcome) else Outcome("fail", error=f"{type(e).__name__}: {e}")
            self._settle(task, out.fields if isinstance(out, Outcome) else {"outcome": "complete", "result": out})
            with self.changed:
                self.tasks.remove(task)
                self.changed.notify_all()
        self.queue.put(None)

    def _lease(self, task):
        text = str(p) if isinstance(p := task.progress, (str, int, float)) else ""  # others have no safe text
        return {"lease": task.lease, "progress": text[:1000]}  # the API allows 4000 bytes

    def _settle(self, task, fields, patience=float("inf")):
        with self.renewing:  # a heartbeat under way may change the lease
            lease, task.lease = self._lease(task), None
        for _ in range(2 if lease["lease"] else 0):
            try:
                body = {"settlements": [{**lease, **fields}]}
                return self.client.repeat("settle", body, self.ended, patience, self.lease_seconds / 3)
            except Exception as e:
                logging.warning("dbq: task %s is not settled: %s", task.id, e)
                if getattr(e, "transient", isinstance(e, (OSError, http.client.HTTPException))):
                    return  # another attempt begins when the lease has expired
                fields = {"outcome": "fail", "error": f"the outcome cannot be stored: {e}"}

    def _heartbeat(self):
        while not self.ended.wait(self.lease_seconds / 3):
            with self.renewing:
                tasks, begin = [t for t in list(self.tasks) if t.lease], time.monotonic()
                body = {"lease_seconds": self.lease_seconds, "leases": [self._lease(t) for t in tasks]}
                try:
                    leases = self.client.call("extend", body, self.lease_seconds / 3)["leases"] if tasks else []
                except Exception as e:
                    logging.warning("dbq: the heartbeat failed: %s", e)
                    leases = [{}] * len(tasks)
                for task, lease in zip(tasks, leases):
                    if "lease" in lease:
                        task.lease, task.until = lease["lease"], begin + self.lease_seconds
                    elif "problem" in lease or time.monotonic() > task.until:
                        task.lease = None
                        task.lost.set()
