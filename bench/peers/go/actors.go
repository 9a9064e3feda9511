package main

import (
	"sync"
	"time"
)

// Actors are goroutines with a channel as mailbox, large enough that no sender ever waits.
type message struct {
	value int
	from  chan message
}

func actorPingpong(quick bool) bool {
	n := 1000000
	if quick {
		n = 100000
	}
	ping, pong := make(chan message, 1), make(chan message, 1)
	good := make(chan bool)
	start := time.Now()
	go func() {
		for i := 0; i < n; i++ {
			m := <-pong
			m.from <- message{m.value + 1, pong}
		}
	}()
	go func() {
		right := true
		for i := 0; i < n; i++ {
			pong <- message{2 * i, ping}
			m := <-ping
			right = right && m.value == 2*i+1
		}
		good <- right
	}()
	right := <-good
	report("actor_pingpong", since(start, n), "ns/rtt")
	return right
}

func actorRing(quick bool) bool {
	const ring = 503
	n := 2000000
	if quick {
		n = 200000
	}
	var box [ring]chan message
	for i := range box {
		box[i] = make(chan message, 1)
	}
	var all sync.WaitGroup
	all.Add(ring)
	start := time.Now()
	for i := range box {
		go func(i int) {
			for m := range box[i] {
				if m.value > 0 {
					box[(i+1)%ring] <- message{m.value - 1, nil}
				}
				if m.value < ring {
					break
				}
			}
			all.Done()
		}(i)
	}
	box[0] <- message{n, nil}
	all.Wait()
	report("actor_ring", since(start, n), "ns/hop")
	return true
}

func actorBig(quick bool) bool {
	const big, ping, pong, end = 120, 0, 1, 2
	rounds := 10000
	if quick {
		rounds = 1000
	}
	var box [big]chan message
	for i := range box {
		box[i] = make(chan message, 2*big)
	}
	done := make(chan int, big)
	var all sync.WaitGroup
	all.Add(big)
	start := time.Now()
	for i := range box {
		go func(i int) {
			random, sent, seen := uint64(i)*0x9e3779b97f4a7c15+1, 0, 0
			somebody := func() {
				random ^= random << 13
				random ^= random >> 7
				random ^= random << 17
				sent++
				box[random%big] <- message{ping, box[i]}
			}
			somebody()
			for m := range box[i] {
				if m.value == ping {
					m.from <- message{pong, nil}
				} else if m.value == end {
					break
				} else if seen++; sent < rounds {
					somebody()
				} else if seen == rounds {
					done <- seen
				}
			}
			all.Done()
		}(i)
	}
	sum := 0
	for i := 0; i < big; i++ {
		sum += <-done
	}
	for i := range box {
		box[i] <- message{end, nil}
	}
	all.Wait()
	report("actor_big", since(start, 2*rounds*big), "ns/message")
	return sum == rounds*big
}

func actorCreate(quick bool) bool {
	n := 200000
	if quick {
		n = 20000
	}
	var all sync.WaitGroup
	all.Add(n)
	wrong := make(chan int, n)
	start := time.Now()
	for i := 0; i < n; i++ {
		box := make(chan message, 1)
		go func(i int) {
			if m := <-box; m.value != i {
				wrong <- i
			}
			all.Done()
		}(i)
		box <- message{i, nil}
	}
	all.Wait()
	report("actor_create", since(start, n), "ns/process")
	return len(wrong) == 0
}
