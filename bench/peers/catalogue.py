"""The peers: which packages each needs, how it is built, how it is called, what it can do.

A peer that is not installed is skipped with a line that says what is missing; nothing here is an error.
"""
import pathlib
import shlex
import shutil
import subprocess

SOURCES = pathlib.Path(__file__).resolve().parent


class Missing(Exception):
    """The peer cannot be built or run here; the text says why."""


def tool(name, package):
    path = shutil.which(name)
    if not path:
        raise Missing(f"{name} is not installed (package {package})")
    return path


def sh(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise Missing(f"does not build: {lines[-1]}")
    return done.stdout


def package_version(name):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
    return done.stdout.split("-")[0].split("+")[0] if done.returncode == 0 else ""


class Peer:
    """One peer: `packages` for --install, `suspends` when its tasks can wait for something, `floor` when it is
    the bare kernel, shown beside the peers and not counted among them, `alone` when it has one worker only."""

    packages = []
    suspends = True
    floor = False
    alone = False  # one worker only

    def __init__(self, name, workloads):
        self.name = name
        self.workloads = workloads
        self.prefix = []
        self.environment = {}
        self.version = ""

    def has(self, workload):
        return workload in self.workloads

    def build(self, out):
        """Leave a command prefix in self.prefix, or raise Missing."""
        raise NotImplementedError


class Compiled(Peer):
    """A C or C++ file and its libraries."""

    def __init__(self, name, workloads, source, packages, libraries=(), suspends=True, header=None,
                 floor=False, alone=False):
        super().__init__(name, workloads)
        self.floor = floor
        self.alone = alone
        self.source = SOURCES / source
        self.packages = packages
        self.libraries = list(libraries)
        self.suspends = suspends
        self.header = header

    def build(self, out):
        cpp = self.source.suffix == ".cpp"
        compiler = tool("g++" if cpp else "gcc", "build-essential")
        if self.header and not (pathlib.Path("/usr/include") / self.header).exists():
            raise Missing(f"not installed (package {self.packages[0]})")
        program = out / self.name
        sh([compiler, "-std=c++17" if cpp else "-std=gnu11", "-O3", "-pthread", "-o", str(program),
            str(self.source)] + self.libraries)
        self.prefix = [str(program)]
        self.version = package_version(self.packages[0]) if self.packages else ""


class Erlang(Peer):
    packages = ["erlang-base"]

    def build(self, out):
        compiler = tool("erlc", "erlang-base")
        tool("erl", "erlang-base")
        sh([compiler, "-o", str(out), str(SOURCES / "erlang" / "weft_peer.erl")])
        self.prefix = [str(SOURCES / "erlang" / "peer"), str(out)]
        self.version = package_version("erlang-base").split(":")[-1]


class Given(Peer):
    """A program named on the command line, --peer NAME=COMMAND.  It is asked for every workload, and says 77 to those it does
    not have."""

    def __init__(self, name, command):
        super().__init__(name, [])
        self.prefix = shlex.split(command)

    def has(self, workload):
        return workload not in SERVERS or workload in self.workloads

    def build(self, out):
        """What it says of itself when it is called with the word `about`."""
        try:
            done = subprocess.run(self.prefix + ["about"], capture_output=True, text=True, timeout=60)
        except OSError as error:
            raise Missing(f"cannot be run: {error}") from error
        about = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line) if done.returncode == 0 else {}
        self.version = about.get("version", "")
        self.suspends = about.get("suspends", "yes") != "no"
        self.alone = about.get("workers", "any") == "1"
        self.workloads = about.get("servers", "").split()


class Go(Peer):
    packages = ["golang-go"]

    def build(self, out):
        go = tool("go", "golang-go")
        program = out / "go"
        sh([go, "build", "-o", str(program), "."], cwd=SOURCES / "go",
           env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(out), "GOCACHE": str(out / "go-cache"),
                "GOFLAGS": "-mod=mod", "GOPROXY": "off"})
        self.prefix = [str(program)]
        self.version = sh([go, "version"]).split()[2].removeprefix("go")


class Rust(Peer):
    """Tokio and rayon are one program, built once, from Debian's own crates."""

    packages = ["cargo", "librust-tokio-dev", "librust-rayon-dev"]
    built = None

    def __init__(self, name, workloads, runtime, crate, suspends=True, preload=None, alone=False):
        super().__init__(name, workloads)
        self.alone = alone
        self.runtime = runtime
        self.crate = crate
        self.suspends = suspends
        self.preload = preload
        if preload:
            self.packages = self.packages + [preload[1]]

    def build(self, out):
        cargo = tool("cargo", "cargo")
        crates = sorted(pathlib.Path("/usr/share/cargo/registry").glob(self.crate + "-[0-9]*"))
        if not crates:
            raise Missing(f"not installed (package librust-{self.crate}-dev)")
        if self.preload:
            libraries = list(pathlib.Path("/usr/lib").glob("*/" + self.preload[0]))
            if not libraries:
                raise Missing(f"{self.preload[0]} is not installed (package {self.preload[1]})")
            self.environment = {"LD_PRELOAD": str(libraries[0])}
        if not Rust.built:
            Rust.built = self.compile(cargo, out)
        self.prefix = [str(Rust.built), self.runtime]
        self.version = crates[-1].name.rsplit("-", 1)[1]
        if self.preload:
            self.version += " + mimalloc " + package_version(self.preload[1])

    @staticmethod
    def compile(cargo, out):
        # Built in a copy: cargo writes a lock file beside the sources.
        copy = out / "rust"
        shutil.copytree(SOURCES / "rust", copy, dirs_exist_ok=True)
        sh([cargo, "build", "--release", "--offline", "--quiet", "--config", "debian.toml"], cwd=copy)
        return copy / "target" / "release" / "peer"


LOCKS = ["mutex", "sem", "rwlock"]
TASKS = [*LOCKS, "spawn_join", "fib", "yield", "wake", "idle_memory_100k", "idle_memory_1m", "sleepers", "timer",
         "blocking"]
CHANNELS = ["pingpong", "mpsc", "skynet", "select"]
SERVERS = ["echo", "http"]  # under the load of weft-bench
ACTORS = ["actor_pingpong", "actor_ring", "actor_big", "actor_create"]
MIMALLOC = ("libmimalloc.so.2", "libmimalloc2.0")

PEERS = [
    Compiled("threads", ["spawn_join", "yield", "wake", *LOCKS], "threads/threads.c", [], floor=True),
    Compiled("asio", ["wake", "yield"], "asio/asio.cpp", ["libboost-dev"], header="boost/asio.hpp"),
    Compiled("tbb", ["spawn_join", "fib", "wake"], "tbb/tbb.cpp", ["libtbb-dev"], ["-ltbb"], suspends=False,
             header="oneapi/tbb.h"),
    Rust("rayon", ["spawn_join", "fib", "wake"], "rayon", "rayon", suspends=False),
    Rust("tokio", TASKS + CHANNELS + ACTORS + SERVERS, "tokio", "tokio"),
    Rust("tokio-current", TASKS + CHANNELS + ACTORS + SERVERS, "tokio-current", "tokio", alone=True),
    Rust("tokio-mimalloc", TASKS + CHANNELS + ACTORS, "tokio", "tokio", preload=MIMALLOC),
    Compiled("boost-fiber", ["spawn_join", "yield", *[c for c in CHANNELS if c != "select"], "mutex", "idle_memory_100k"],
             "boost_fiber/boost_fiber.cpp", ["libboost-fiber-dev"], ["-lboost_fiber", "-lboost_context"],
             header="boost/fiber/all.hpp"),
    Compiled("libuv", ["wake", "sleepers", "timer", "blocking", *SERVERS], "libuv/libuv.c", ["libuv1-dev"], ["-luv"],
             header="uv.h", alone=True),
    Compiled("caf", ACTORS, "caf/caf.cpp", ["libcaf-dev"], ["-lcaf_core"], header="caf/all.hpp"),
    Erlang("erlang", ["spawn_join", "fib", "yield", "idle_memory_100k", "idle_memory_1m", "sleepers", "pingpong", "mpsc",
                      "skynet", *ACTORS]),
    Go("go", [w for w in TASKS if w not in ("wake", "blocking")] + CHANNELS + ACTORS + SERVERS),
]
