package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func spawnJoin(quick bool) bool {
	n := 1000000
	if quick {
		n = 100000
	}
	var wg sync.WaitGroup
	start := time.Now()
	for g := 0; g < n/group; g++ {
		wg.Add(group)
		for i := 0; i < group; i++ {
			go func() { wg.Done() }()
		}
		wg.Wait()
	}
	report("spawn_join", since(start, n), "ns/task")
	return true // Wait returned for every group, so every task ran once
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	c := make(chan int, 1)
	go func() { c <- fib(n - 1) }()
	b := fib(n - 2)
	return <-c + b
}

func forkJoin() bool {
	start := time.Now()
	value := fib(fibN)
	report("fib", since(start, fibForks), "ns/fork")
	return value == fibValue
}

func yield(quick bool) bool {
	n := 10000000
	if quick {
		n = 1000000
	}
	var yields [2]int
	var wg sync.WaitGroup
	wg.Add(2)
	start := time.Now()
	for k := range yields {
		mine := &yields[k]
		go func() {
			for ; *mine < n/2; *mine++ {
				runtime.Gosched()
			}
			wg.Done()
		}()
	}
	wg.Wait()
	report("yield", since(start, n), "ns/yield")
	return yields[0]+yields[1] == n
}

func rss() float64 {
	text, _ := os.ReadFile("/proc/self/smaps_rollup")
	for _, line := range strings.Split(string(text), "\n") {
		var kb float64
		if n, _ := fmt.Sscanf(line, "Rss: %f kB", &kb); n == 1 {
			return kb * 1024
		}
	}
	return 0
}

func parked(n int, name string) bool {
	runtime.GC()
	debug.FreeOSMemory()
	before := rss()
	release := make(chan bool)
	var started, ended sync.WaitGroup
	started.Add(n)
	ended.Add(n)
	for i := 0; i < n; i++ {
		go func() { started.Done(); <-release; ended.Done() }()
	}
	started.Wait()
	time.Sleep(50 * time.Millisecond)
	report(name, (rss()-before)/float64(n), "bytes")
	close(release)
	ended.Wait()
	return before > 0
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func mostResident() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Maxrss) * 1024
}

func next(random *uint64) time.Duration {
	*random = *random*6364136223846793005 + 1442695040888963407
	return time.Duration(1+(*random>>33)%1000) * time.Millisecond
}

func sleepers(quick bool) bool {
	n := 1000000
	if quick {
		n = 50000
	}
	var woke int64
	var wg sync.WaitGroup
	random := uint64(1)
	start, cpu := time.Now(), cpuSeconds()
	wg.Add(n)
	for i := 0; i < n; i++ {
		d := next(&random)
		go func() {
			began := time.Now()
			time.Sleep(d)
			if time.Since(began) >= d {
				atomic.AddInt64(&woke, 1)
			}
			wg.Done()
		}()
	}
	wg.Wait()
	report("sleepers_wall", time.Since(start).Seconds(), "s")
	report("sleepers_cpu", cpuSeconds()-cpu, "s")
	report("sleepers_rss", mostResident()/1e6, "MB")
	return woke == int64(n)
}

func timer(quick bool) bool {
	n := 10000000
	if quick {
		n = 1000000
	}
	random, stopped := uint64(1), 0
	start := time.Now()
	for i := 0; i < n; i++ {
		if time.NewTimer(time.Hour + next(&random)).Stop() {
			stopped++
		}
	}
	report("timer", since(start, n), "ns")
	return stopped == n
}

const fighters = 8

// Eight goroutines; each runs body(times) and says whether it saw nothing wrong.
func fight(name string, quick bool, body func(times int) bool) bool {
	times := 1000000
	if quick {
		times = 100000
	}
	var wg sync.WaitGroup
	var ok [fighters]bool
	wg.Add(fighters)
	start := time.Now()
	for k := range ok {
		mine := &ok[k]
		go func() { *mine = body(times); wg.Done() }()
	}
	wg.Wait()
	report(name, since(start, times*fighters), "ns/op")
	for _, good := range ok {
		if !good {
			return false
		}
	}
	return inside == times*fighters
}

var inside int

func fightMutex(quick bool) bool {
	var lock sync.Mutex
	return fight("mutex", quick, func(times int) bool {
		for i := 0; i < times; i++ {
			lock.Lock()
			inside++
			lock.Unlock()
		}
		return true
	})
}

// A channel of one place is how Go spells a semaphore.
func fightSem(quick bool) bool {
	sem := make(chan struct{}, 1)
	return fight("sem", quick, func(times int) bool {
		for i := 0; i < times; i++ {
			sem <- struct{}{}
			inside++
			<-sem
		}
		return true
	})
}

func fightRwlock(quick bool) bool {
	var lock sync.RWMutex
	return fight("rwlock", quick, func(times int) bool {
		seen, good := 0, true
		for i := 0; i < times; i++ {
			if i%8 == 0 {
				lock.Lock()
				inside += 8
				lock.Unlock()
			} else {
				lock.RLock()
				good = good && inside >= seen
				seen = inside
				lock.RUnlock()
			}
		}
		return good
	})
}
