"""readme_cases - the commands that the README and the guide show, run as printed, against a node on the address they name."""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile

import harness
from auth_cases import token_file
from harness import Node, claim, group, skip

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def commands(page):
    """[(command, expected)] of the ```sh blocks under <!-- node -->, with what the ```text or ```json block behind each says."""
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    found = re.findall(r"<!-- node -->\n```sh\n(.*?)```(?:\n+<!-- prints -->\n```(?:text|json)\n(.*?)```)?", text, re.S)
    return [(command.strip(), expected.strip()) for command, expected in found]


def alike(expected, found):
    """... in what is expected stands for anything."""
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, found.strip(), re.S) is not None


@group
def as_printed():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", 7711))
        except OSError:
            skip("commands as printed", "port 7711 is taken")
            return
    if not shutil.which("curl"):
        skip("commands as printed", "there is no curl")
        return
    for page in ("README.md", "docs/guide/13-node.md"):
        found = commands(page)
        claim(f"{page} has commands", len(found) >= 2, found)
        with tempfile.TemporaryDirectory(prefix="weft-readme-") as where, Node(memory=False, data=os.path.join(where, "data"), listen="127.0.0.1:7711"):
            env = dict(os.environ, PATH=os.path.dirname(harness.WEFT) + ":" + os.environ["PATH"])
            for command, expected in found:
                done = subprocess.run(["bash", "-eu", "-c", command], capture_output=True, text=True, timeout=30, cwd=where, env=env, stdin=subprocess.DEVNULL)
                claim(f"{page}: {command[:70]}", done.returncode == 0 and alike(expected, done.stdout) if expected else done.returncode == 0,
                      f"exit {done.returncode}, expected:\n{expected}\nfound:\n{done.stdout}{done.stderr}")


@group
def announced():
    """What the node prints when it starts works too: at first, and when the store is there already; with a token."""
    token = token_file()
    with tempfile.TemporaryDirectory(prefix="weft-announced-") as data:
        for options in ((), (), ("--token-file", token)):
            announced_once(Node(*options, memory=False, data=data))
    os.unlink(token)


def announced_once(node):
    with node as n:
        lines = [line.strip() for line in harness.eventually(lambda: len(n.rest) >= 3 and n.rest)]
        found = [line for line in lines if line.startswith("curl ")]
        claim("two commands to try", len(found) == 2, lines)
        for command, part in zip(found, ('"status":"ok"', '"hello"')):
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30)
            claim(f"works: {command[:60]}", part in done.stdout and "result" in json.loads(done.stdout), done.stdout + done.stderr)
