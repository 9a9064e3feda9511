// The Go peer: goroutines doing the workloads of weft-bench.  How it is called: ../common/peer.h.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

const (
	group = 1000
	skip  = 77
	// fib(30), not 35: a fork costs a hundred times a weft fork, and does not depend on n.
	fibN     = 30
	fibForks = 1346268
	fibValue = 832040
)

func report(name string, value float64, unit string) {
	fmt.Printf("%s\t%.3f\t%s\n", name, value, unit)
}

func since(start time.Time, n int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

func main() {
	if len(os.Args) < 3 {
		os.Exit(2)
	}
	workers, err := strconv.Atoi(os.Args[2])
	if err != nil || workers < 1 {
		os.Exit(2)
	}
	runtime.GOMAXPROCS(workers)
	quick := len(os.Args) > 3 && os.Args[3] == "quick"
	ok := true
	switch os.Args[1] {
	case "spawn_join":
		ok = spawnJoin(quick)
	case "fib":
		ok = forkJoin()
	case "yield":
		if workers != 1 {
			os.Exit(skip)
		}
		ok = yield(quick)
	case "mutex":
		ok = fightMutex(quick)
	case "sem":
		ok = fightSem(quick)
	case "rwlock":
		ok = fightRwlock(quick)
	case "idle_memory_100k": // one size a process: what an earlier one freed would not be seen
		ok = parked(100000, "idle_memory_100k")
	case "idle_memory_1m":
		ok = parked(1000000, "idle_memory_1m")
	case "sleepers":
		ok = sleepers(quick)
	case "timer":
		ok = timer(quick)
	case "pingpong":
		ok = pingpong(quick)
	case "actor_pingpong":
		ok = actorPingpong(quick)
	case "actor_ring":
		ok = actorRing(quick)
	case "actor_big":
		ok = actorBig(quick)
	case "actor_create":
		ok = actorCreate(quick)
	case "mpsc":
		ok = mpsc(quick)
	case "skynet":
		ok = skynet(quick)
	case "select":
		ok = selecting(quick)
	case "echo", "http": // until weft-bench ends it
		ok = serve(os.Args[1] == "http")
	default: // wake: every goroutine is inside the runtime, there is no outside thread to submit from
		os.Exit(skip)
	}
	if !ok {
		os.Exit(1)
	}
}
