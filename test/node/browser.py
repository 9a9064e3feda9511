"""browser - a real, headless Chromium, driven through its debugging pipe (two descriptors, JSON ended by zero bytes)."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, path, width=1240, height=1000):
        self.profile = tempfile.mkdtemp(prefix="weft-browser-")
        to_browser, self.to = os.pipe()
        self.from_, from_browser = os.pipe()
        # Chromium expects to read from descriptor 3 and to write to 4; both ends are first moved out of the way.
        low = [os.dup(to_browser), os.dup(from_browser)]
        while min(low) < 5:
            low = [os.dup(fd) for fd in low]

        def wire():
            os.dup2(low[0], 3)
            os.dup2(low[1], 4)

        self.child = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--force-device-scale-factor=1", f"--user-data-dir={self.profile}", f"--window-size={width},{height}",
             "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=wire, close_fds=False,
            start_new_session=True, env=dict(os.environ, HOME=self.profile))
        for fd in [to_browser, from_browser] + low:
            os.close(fd)
        self.buffer, self.serial, self.events, self.session = b"", 0, [], None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def message(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.from_], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.from_, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def send(self, method, limit=20, **params):
        self.serial += 1
        request = {"id": self.serial, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + limit
        while True:
            message = self.message(deadline)
            if message.get("id") == self.serial:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def open(self, url):
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression, limit=20):
        """Wait until an expression is true; its value."""
        deadline = time.monotonic() + limit
        while True:
            value = self.run(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.05)

    def complaints(self):
        """What the console, the policy and the page's own code complained about."""
        self.run("1")  # so that what came before has been read
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return found

    def requested(self):
        """The addresses that were asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def dark(self, on):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def screenshot(self, path):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.send("Browser.close", limit=5)
        except (OSError, EOFError, TimeoutError, RuntimeError):
            pass
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, 9)  # its own session: nothing but what it started
            self.child.wait()
        os.close(self.to)
        os.close(self.from_)
        shutil.rmtree(self.profile, ignore_errors=True)
