"""harness - a node to ask, sockets to ask it with, and the count of what held."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import traceback

WEFT = None  # the program; set by check
passed = failed = skipped = 0
groups = []
slow = 3  # seconds, then a group is named


def group(function):
    """A function of claims, run by check in the order of the files."""
    groups.append(function)
    return function


def claim(name, condition, detail=""):
    global passed, failed
    if condition:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name}: {str(detail)[-3000:]}", flush=True)


def equal(name, found, expected):
    claim(name, found == expected, f"expected {expected!r}, found {found!r}")


def skip(name, why):
    global skipped
    skipped += 1
    print(f"skipped {name}: {why}", flush=True)


def run_groups(names):
    for function in groups:
        if names and not any(n in f"{function.__module__}.{function.__name__}" for n in names):
            continue
        began = time.monotonic()
        try:
            function()
        except Exception:  # a claim that could not even be made
            claim(f"{function.__module__}.{function.__name__}", False, traceback.format_exc()[-1500:])
        took = time.monotonic() - began
        if took > slow:
            print(f"{function.__module__}.{function.__name__}: {took:.1f} s", flush=True)


def eventually(condition, limit=10):
    """What a condition gives when it is true; its last value otherwise."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)


def weft(*args, limit=30, **more):
    """Run the program: (status, stdout, stderr)."""
    done = subprocess.run([WEFT, *map(str, args)], capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL, **more)
    return done.returncode, done.stdout, done.stderr


class Node:
    """A node on a free port; ends with the block."""

    def __init__(self, *options, listen="127.0.0.1:0", memory=True, data=None, cwd=None, env=None):
        self.own = None
        if not memory and not data:
            self.own = data = tempfile.mkdtemp(prefix="weft-node-")
        self.data = data
        where = ["--memory"] if memory else ["--data", data]
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.child = subprocess.Popen([WEFT, "node", *where, "--listen", listen, *map(str, options)], stdout=subprocess.PIPE,
                                      stderr=self.errors, text=True, stdin=subprocess.DEVNULL, cwd=cwd, env={**os.environ, **(env or {})}, start_new_session=True)
        self.first = self.child.stdout.readline()
        found = re.search(r"http://(\S+):(\d+)/", self.first)
        if not found:
            self.child.wait(10)
            raise RuntimeError(f"no node: {self.first}{self.words()}")
        self.port = int(found[2])
        self.url = f"http://127.0.0.1:{self.port}"
        self.rest = []
        self.reader = threading.Thread(target=lambda: self.rest.extend(self.child.stdout), daemon=True)
        self.reader.start()
        self.http = None

    def words(self):
        self.errors.seek(0)
        return self.errors.read()

    def stop(self, number=signal.SIGTERM, limit=35):
        """(exit status, seconds it took)."""
        began = time.monotonic()
        if self.child.poll() is None:
            self.child.send_signal(number)
        try:
            self.child.wait(limit)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.reader.join(2)
        return self.child.returncode, time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.http:
            self.http.close()
        status = self.stop()[0]
        words = self.words()
        claim("the node ended well", status in (0, -signal.SIGTERM) and "Sanitizer" not in words and "runtime error" not in words, f"{status}: {words[-3000:]}")
        self.child.stdout.close()
        self.errors.close()
        if self.own:
            shutil.rmtree(self.own, ignore_errors=True)

    def post(self, body, **headers):
        """POST / over a connection that is kept: (status, fields, body)."""
        for attempt in (1, 2):
            if not self.http:
                self.http = Connection(self.port)
            try:
                answer = self.http.post(body, **headers)
                if answer[1].get("connection") == "close":
                    self.http.close()
                    self.http = None
                return answer
            except (OSError, EOFError):
                self.http.close()
                self.http = None
                if attempt == 2:
                    raise

    def raw(self, request):
        """The answer to a JSON-RPC request."""
        body = request if isinstance(request, (bytes, str)) else json.dumps(request)
        text = self.post(body)[2]
        return json.loads(text) if text else None

    def call(self, method, id=1, **params):
        return self.raw({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def result(self, method, **params):
        answer = self.call(method, **params)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def submit(self, shard, method, *args, sender="me", nonce=1, wait_ms=10000, **more):
        """The receipt of one transaction."""
        tx = dict(method=method, sender=sender, nonce=nonce, args=list(args), **more)
        return self.result("tx_submit", shard=shard, tx=tx, wait_ms=wait_ms)["receipts"][0]


class Connection:
    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port, self.buffer = port, b""

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def more(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise EOFError("closed")
        self.buffer += piece

    def take(self, size):
        while len(self.buffer) < size:
            self.more()
        piece, self.buffer = self.buffer[:size], self.buffer[size:]
        return piece

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def head(self):
        status = int(self.line().split(b" ")[1])
        fields = {}
        while line := self.line():
            name, value = line.decode("latin-1").split(":", 1)
            fields[name.lower()] = value.strip()
        return status, fields

    def chunk(self):
        size = int(self.line(), 16)
        data = self.take(size)
        self.take(2)
        return data

    def answer(self, no_body=False):
        status, fields = self.head()
        body = b""
        if fields.get("transfer-encoding") == "chunked":
            while piece := self.chunk():
                body += piece
        elif not no_body and status != 204:
            body = self.take(int(fields.get("content-length", 0)))
        return status, fields, body.decode()

    def post(self, body, **headers):
        body = body if isinstance(body, bytes) else body.encode()
        fields = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in headers.items():
            fields[name.replace("_", "-")] = value
        head = "".join(f"{n}: {v}\r\n" for n, v in fields.items() if v is not None)
        self.send(b"POST / HTTP/1.1\r\n" + head.encode("latin-1") + b"\r\n" + body)
        return self.answer()


def exchange(port, data, no_body=False):
    """One connection: send bytes, and the first answer; status 0 when it was closed without one."""
    c = Connection(port)
    try:
        c.send(data)
        return c.answer(no_body)
    except (EOFError, ConnectionError):
        return 0, {}, ""
    finally:
        c.close()


def get(port, path, method="GET", **headers):
    fields = {"Host": f"127.0.0.1:{port}"}
    fields.update({n.replace("_", "-"): v for n, v in headers.items()})
    head = "".join(f"{n}: {v}\r\n" for n, v in fields.items() if v is not None)
    return exchange(port, f"{method} {path} HTTP/1.1\r\n{head}\r\n", method == "HEAD")


shared = None


def node():
    """A node in memory for claims that leave it as they found it, or do not care."""
    global shared
    if shared is None or shared.child.poll() is not None:
        shared = Node()
    return shared


def end():
    if shared:
        shared.__exit__()
