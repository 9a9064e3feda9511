"""http_cases - HTTP: methods, types, sizes, malformed requests, Host and Origin, the fields of every answer."""
import json
import time

from harness import Connection, Node, claim, equal, eventually, exchange, get, group, node

INFO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_info"})


@group
def routes():
    port = node().port
    for method, path, expected in [
        ("GET", "/", 200), ("HEAD", "/", 200), ("GET", "/metrics", 200), ("HEAD", "/metrics", 200), ("GET", "/none", 404), ("GET", "/index.html", 404),
        ("PUT", "/", 405), ("DELETE", "/", 405), ("OPTIONS", "/", 405), ("GET", "/rpc", 405), ("POST", "/metrics", 405), ("POST", "/events", 405),
        ("HEAD", "/events", 405), ("GET", "/events?shard=none", 404), ("GET", "/events?x=1", 400), ("GET", "/events?shard=%00", 400), ("GET", "/../etc/passwd", 404),
        ("GET", "//", 404), ("GET", "/?q", 200), ("PATCH", "/metrics", 405), ("TRACE", "/", 405),
    ]:
        status, fields, _ = get(port, path, method)
        equal(f"{method} {path}", status, expected)
        if expected == 405:
            claim(f"{method} {path} says what is allowed", fields.get("allow"), fields)


@group
def types():
    for type, expected in [("application/json", 200), ("Application/JSON", 200), ("application/json; charset=utf-8", 200), ("application/json ;x=y", 200),
                           (None, 415), ("text/plain", 415), ("application/x-www-form-urlencoded", 415), ("multipart/form-data", 415), ("application/jsonx", 415),
                           ("", 415), ("text/plain; application/json", 415), ("application/json-rpc", 415)]:
        equal(f"type {type}", node().post(INFO, Content_Type=type)[0], expected)


@group
def sizes():
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = INFO.encode().ljust(1 << 20)
    equal("a body of 1 MiB", node().post(body)[0], 200)
    equal("a body of 1 MiB and a byte", exchange(node().port, head + b"Content-Length: 1048577\r\n\r\n" + body + b" ")[0], 413)
    claim("a body of 2^62", exchange(node().port, head + b"Content-Length: 4611686018427387904\r\n\r\n")[0] in (400, 413), "")
    chunk = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
    equal("chunks of more than 1 MiB", exchange(node().port, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17 + b"0\r\n\r\n")[0], 413)
    info = b"%x\r\n" % len(INFO) + INFO.encode() + b"\r\n"
    equal("chunks", exchange(node().port, head + b"Transfer-Encoding: chunked\r\n\r\n" + info + b"0\r\n\r\n")[0], 200)
    equal("a long line", exchange(node().port, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")[0], 414)
    equal("a long head", exchange(node().port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 17000 + b"\r\n\r\n")[0], 431)


@group
def malformed():
    ok = "Host: localhost\r\nContent-Type: application/json\r\n"
    for name, text in [
        ("no Host", "GET / HTTP/1.1\r\n\r\n"), ("two Hosts", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
        ("two lengths", f"POST / HTTP/1.1\r\n{ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{{}}"),
        ("length and chunks", f"POST / HTTP/1.1\r\n{ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"),
        ("a signed length", f"POST / HTTP/1.1\r\n{ok}Content-Length: +2\r\n\r\n{{}}"), ("a list of lengths", f"POST / HTTP/1.1\r\n{ok}Content-Length: 2, 2\r\n\r\n{{}}"),
        ("a hexadecimal length", f"POST / HTTP/1.1\r\n{ok}Content-Length: 0x2\r\n\r\n{{}}"), ("an unknown coding", f"POST / HTTP/1.1\r\n{ok}Transfer-Encoding: gzip, chunked\r\n\r\n"),
        ("a folded field", "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"), ("a space before the colon", "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"),
        ("a bare CR", "GET / HTTP/1.1\r\nHost: local\rhost\r\n\r\n"), ("a zero byte", "GET / HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n"),
        ("no version", "GET /\r\nHost: localhost\r\n\r\n"), ("garbage", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
        ("a bad chunk", f"POST / HTTP/1.1\r\n{ok}Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ]:
        status, fields, _ = exchange(node().port, text.encode("latin-1"))
        claim(name, status in (400, 501) and fields.get("connection") == "close", (status, fields))
    equal("it goes on", node().post(INFO)[0], 200)


@group
def hosts():
    with Node("--host", "node.example", "--host", "other.example") as n:
        for host, good in [("localhost", 1), ("LOCALHOST:80", 1), ("127.0.0.1", 1), (f"127.0.0.1:{n.port}", 1), ("127.0.0.1:", 1), ("127.0.0.1:evil.example", 0), ("localhost:x", 0), ("[::1]x", 0), ("[::1]:8x", 0), ("[::1]", 1), ("[::1]:99", 1), ("10.1.2.3:7711", 1),
                           ("node.example", 1), ("NODE.example:7711", 1), ("other.example", 1), ("evil.example", 0), ("localhost.evil.example", 0),
                           ("node.example.evil.example", 0), ("127.0.0.1.evil.example", 0), ("evil.example:7711", 0), ("", 0), ("0x7f.1", 0), ("2130706433", 0), ("127.1", 0),
                           ("127.0.0.1 ", 1), ("[::1", 0), ("::1", 0), ("[127.0.0.1]", 0), ("localhos", 0), ("localhost@evil", 0), ("xnode.example", 0)]:
            for path in ("/", "/metrics"):
                status = get(n.port, path, Host=host)[0]
                claim(f"Host {host!r} {path}", status == 200 if good else status in (400, 421), status)
            status = n.post(INFO, Host=host)[0]
            claim(f"Host {host!r} asks", status == 200 if good else status in (400, 421), status)
            if not good and n.http:
                n.http.close()
                n.http = None


@group
def origins():
    port = node().port
    same = f"127.0.0.1:{port}"
    for origin, good in [(None, 1), (f"http://{same}", 1), (f"https://{same}", 1), ("http://evil.example", 0), ("null", 0), ("", 0), (f"http://{same}0", 0), (f"http://x{same}", 0),
                         ("http://127.0.0.1", 0), (f"http://{same}/", 0), (f"ftp://{same}", 0), ("http://localhost:%d" % port, 0), (f"http://{same}.evil.example", 0), (same, 0)]:
        for send in (lambda: node().post(INFO, Origin=origin)[0], lambda: get(port, "/", **({"Origin": origin} if origin is not None else {}))[0]):
            status = send()
            equal(f"Origin {origin!r}", status, 200 if good else 403)
    status, fields, _ = get(port, "/", "OPTIONS", Origin="http://evil.example", Access_Control_Request_Method="POST")
    claim("a preflight is refused", status == 403 and not any(f.startswith("access-control") for f in fields), (status, fields))


@group
def fields():
    for path in ("/", "/metrics", "/none"):
        _, found, _ = get(node().port, path)
        claim(f"{path} is not sniffed, kept or shown elsewhere", found.get("x-content-type-options") == "nosniff" and found.get("cache-control") == "no-store" and
              found.get("referrer-policy") == "no-referrer" and found.get("cross-origin-resource-policy") == "same-origin", found)
    _, first, page = get(node().port, "/")
    _, second, _ = get(node().port, "/")
    policy = first["content-security-policy"]
    claim("policy", all(p in policy for p in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'")) and
          "unsafe" not in policy, policy)
    claim("a nonce is used once", policy != second["content-security-policy"], policy)
    nonce = policy.split("'nonce-")[1].split("'")[0]
    claim("the page has it", page.count(f'nonce="{nonce}"') == 2 and "@NONCE@" not in page, page[:200])
    claim("nothing from elsewhere", "http://" not in page and "https://" not in page and "//" not in [w[:2] for w in page.split('"')], "")


@group
def slow_connections():
    """More than there may be, all in the middle of a request, do not make others wait."""
    with Node("--max-connections", 20) as n:
        slow = [Connection(n.port) for _ in range(40)]
        for one in slow:
            try:
                one.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            except OSError:  # closed for another
                pass
        began = time.monotonic()
        for _ in range(5):
            claim("served", eventually(lambda: get(n.port, "/metrics")[0] == 200), "")
        took = time.monotonic() - began
        claim("at once", took < 5, took)  # the head's timeout is 10 s
        for one in slow:
            one.close()


@group
def prometheus():
    node().submit("metrics", "set", "k", "v")
    status, found, text = get(node().port, "/metrics")
    equal("metrics", (status, found["content-type"].split(";")[0]), (200, "text/plain"))
    declared, values = set(), {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            claim(f"metric {name} once", name not in values, line)
            values[name] = float(value)
            base = name.split("{")[0]
            claim(f"metric {name} declared", base in declared or base.rsplit("_", 1)[0] in declared, line)
    claim("counts", values["weft_txs_total{status=\"ok\"}"] >= 1 and values["weft_shards"] >= 1 and values["weft_blocks_total"] >= 1, values)
    buckets = [v for n, v in values.items() if n.startswith("weft_tx_latency_seconds_bucket")]
    claim("buckets rise", buckets == sorted(buckets) and buckets[-1] == values["weft_tx_latency_seconds_count"], buckets)
