"""page_cases - the page in a real browser: it shows shards, follows them, and submits; its picture goes into the docs."""
import os
import subprocess
import tempfile

import browser
import harness
from harness import Node, claim, equal, group, skip, weft

picture, picture_seconds = None, 2  # where the screenshot goes, and how long the node has been busy then; set by check


@group
def page():
    path = browser.find()
    if not path:
        skip("the page in a browser", "there is no chromium, and it could not be installed (apt-get install chromium)")
        return
    with Node() as n:
        b = browser.Browser(path)
        try:
            empty(n, b)
            for i in range(3):
                n.submit(f"accounts-{i}", "add", "total", 5)
            drive(n, b)
            if picture:
                take_picture(b)
        finally:
            b.close()


LABELS = "plots.map(p => p.labels)"


def empty(n, b):
    """Without transactions the plots have no scale, and say so; with few, no two labels are the same."""
    b.open(n.url + "/")
    b.until("seconds.length > 1 && plots.every(p => p.labels)")
    equal("no scale without a value", b.run(LABELS), [["0"], ["0"]])
    n.submit("alone", "noop")
    b.until("seconds.some(s => s.p50_us)")
    labels = b.until("plots.every(p => p.labels.length === 3) && " + LABELS)
    claim("labels differ", all(len(set(three)) == 3 for three in labels), labels)
    equal("of one transaction", labels[0], ["0", "1", "2"])
    drawn = b.run("(() => { const c = plots[1].canvas, d = c.getContext('2d').getImageData(60, 0, c.width - 60, c.height - 25).data, p = color('--warm').match(/\\w\\w/g).map(h => parseInt(h, 16));"
                  "let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] === p[0] && d[i + 1] === p[1] && d[i + 2] === p[2]; return n; })()")
    claim("a single value is drawn", drawn > 4, drawn)


def take_picture(b):
    """The page of a durable node under load, with a failure now and then."""
    with tempfile.TemporaryDirectory(prefix="weft-picture-") as where, Node(memory=False, data="data", cwd=where) as n:
        for i, name in enumerate(("accounts-eu", "accounts-us", "orders", "stock")):
            n.submit(name, "transfer", "bob", 10 * i + 5)
        b.send("Emulation.setDeviceMetricsOverride", width=1240, height=1000, deviceScaleFactor=1, mobile=False)
        b.dark(False)
        b.open(n.url + "/")
        load = subprocess.Popen([harness.WEFT, "tx", "load", "--node", n.url, "--shards", "12", "--connections", "3", "--batch", "50", "--time", f"{picture_seconds}s"],
                                stdout=subprocess.DEVNULL)
        b.until(f"seconds.filter(s => s.txs > 0).length >= {picture_seconds - 1}", limit=picture_seconds + 20)
        b.run("document.querySelector('#submit button').click()")
        b.until("document.querySelector('#result').textContent.startsWith('ok')")
        os.makedirs(os.path.dirname(picture), exist_ok=True)
        b.screenshot(picture)
        claim("picture", os.path.getsize(picture) > 20000, os.path.getsize(picture))
        load.wait(picture_seconds + 60)


def text(b, selector):
    return b.run(f"document.querySelector({selector!r}).textContent")


def narrow(b):
    """On a telephone everything is within its width, and is there."""
    for width in (390, 360, 320):
        b.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)
        claim(f"no sideways scrolling at {width} px", b.run("document.documentElement.scrollWidth <= innerWidth"), b.run("document.documentElement.scrollWidth"))
        beyond = b.run("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
                       ".map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))")
        equal(f"nothing is beyond the edge at {width} px", beyond, [])
        hidden = b.run("[...document.querySelectorAll('#shards tbody td, #blocks span.grow, #failures span.grow')]"
                       ".filter(e => e.getBoundingClientRect().width < 20).map(e => e.textContent)")
        equal(f"figures, block numbers and reasons are shown at {width} px", hidden, [])


def drive(n, b):
    b.open(n.url + "/")
    b.until("document.querySelectorAll('#shards tbody tr').length === 4")
    names = b.run("[...document.querySelectorAll('#shards tbody tr')].map(r => r.dataset.shard)")
    equal("shards are shown", names, ["accounts-0", "accounts-1", "accounts-2", "alone"])
    equal("with their state", b.run("[...document.querySelectorAll('#shards .state')].map(s => s.textContent)"), ["idle"] * 4)
    b.until("document.querySelector('#live').classList.contains('on')")
    claim("it is live", text(b, "#live") == "live", text(b, "#live"))

    b.run("document.querySelector('[name=shard]').value = 'from the page <b>'; document.querySelector('#submit button').click()")
    result = b.until("/^(?!…)./.test(document.querySelector('#result').textContent) && document.querySelector('#result').textContent")
    claim("submitting works", result.startswith("ok, block 1"), result)
    equal("the node has it", n.result("state_get", shard="from the page <b>", key="greeting"), "hello")
    b.until("[...document.querySelectorAll('#shards tbody tr')].some(r => r.dataset.shard === 'from the page <b>')")
    equal("names are no markup", b.run("document.querySelectorAll('#shards b').length"), 0)
    b.until("document.querySelector('#blocks').textContent.includes('from the page')")
    claim("its block is shown", True)

    b.run("document.querySelector('[name=method]').value = 'transfer'; document.querySelector('[name=args]').value = 'bob\\n7';"
          "document.querySelector('#submit button').click()")
    result = b.until("document.querySelector('#result').textContent.startsWith('failed') && document.querySelector('#result').textContent")
    claim("a failure is said", "failed" in result, result)
    b.until("!document.querySelector('#failures .empty')")
    claim("and listed", "from the page" in text(b, "#failures"), text(b, "#failures"))

    status, out, errors = weft("tx", "load", "--node", n.url, "--shards", "12", "--connections", "2", "--batch", "20", "--count", "20000", "--time", "20s")
    claim("load", status == 0, (out, errors))
    b.until("document.querySelectorAll('#shards tbody tr').length === 17")
    b.until("seconds.some(s => s.txs > 100)")
    claim("the plots have figures", b.run("plots.every(p => p.canvas.width > 100) && seconds.some(s => s.p50_us > 0)"))
    drawn = b.run("(() => { const c = plots[0].canvas, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                  "const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add(d[i] + ',' + d[i + 1] + ',' + d[i + 2]);"
                  "return seen.size; })()")
    claim("and are drawn", drawn > 3, drawn)
    b.run("document.querySelector('#find').value = 'acc'; document.querySelector('#find').dispatchEvent(new Event('input'))")
    b.until("document.querySelectorAll('#shards tbody tr').length === 3")
    b.run("document.querySelector('#find').value = ''; document.querySelector('#find').dispatchEvent(new Event('input'))")
    b.until("document.querySelectorAll('#shards tbody tr').length === 17")

    complaints = b.complaints()
    equal("the console is empty", complaints, [])
    elsewhere = [u for u in b.requested() if not u.startswith(n.url) and not u.startswith("data:")]
    equal("nothing is loaded from elsewhere", elsewhere, [])
    equal("no inline script runs", b.run("(() => { const s = document.createElement('script'); s.textContent = 'window.evil = 1'; document.body.append(s); return window.evil; })()"), None)

    light = b.run("getComputedStyle(document.body).backgroundColor")
    b.dark(True)
    b.until(f"getComputedStyle(document.body).backgroundColor !== {light!r}")
    claim("dark", True)
    narrow(b)
    n.stop()
    b.until("document.querySelector('#live').classList.contains('off')")
    claim("it notices the node's end", True)
