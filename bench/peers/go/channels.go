package main

import "time"

func pingpong(quick bool) bool {
	n := 1000000
	if quick {
		n = 100000
	}
	there, back := make(chan int, 1), make(chan int, 1)
	go func() {
		for ball := range there {
			back <- ball + 1
		}
		close(back)
	}()
	good := true
	start := time.Now()
	for i := 0; i < n; i++ {
		there <- i
		good = <-back == i+1 && good
	}
	report("pingpong", since(start, n), "ns/rtt")
	close(there)
	_, open := <-back
	return good && !open
}

func mpsc(quick bool) bool {
	const producers = 4
	n := 4000000
	if quick {
		n = 400000
	}
	each := n / producers
	ch := make(chan int, 1024)
	start := time.Now()
	for p := 0; p < producers; p++ {
		go func() {
			for i := 0; i < each; i++ {
				ch <- i
			}
		}()
	}
	sum := 0
	for i := 0; i < n; i++ {
		sum += <-ch
	}
	report("mpsc", since(start, n), "ns/message")
	return sum == producers*(each*(each-1)/2)
}

func node(parent chan<- int, first, leaves int) {
	if leaves == 1 {
		parent <- first
		return
	}
	const children = 10
	ch := make(chan int, children)
	share := leaves / children
	for i := 0; i < children; i++ {
		go node(ch, first+i*share, share)
	}
	sum := 0
	for i := 0; i < children; i++ {
		sum += <-ch
	}
	parent <- sum
}

func skynet(quick bool) bool {
	leaves := 1000000
	if quick {
		leaves = 100000
	}
	root := make(chan int, 1)
	start := time.Now()
	go node(root, 0, leaves)
	sum := <-root
	report("skynet", float64(time.Since(start).Nanoseconds())/1e6, "ms")
	return sum == leaves*(leaves-1)/2
}

// A nil channel is never ready: of two lanes the rest would be nil, and cost; so two have a select of their own.
func receive(ch []chan int) (v, lane int, ok bool) {
	if len(ch) == 2 {
		select {
		case v, ok = <-ch[0]:
			lane = 0
		case v, ok = <-ch[1]:
			lane = 1
		}
		return
	}
	select {
	case v, ok = <-ch[0]:
		lane = 0
	case v, ok = <-ch[1]:
		lane = 1
	case v, ok = <-ch[2]:
		lane = 2
	case v, ok = <-ch[3]:
		lane = 3
	case v, ok = <-ch[4]:
		lane = 4
	case v, ok = <-ch[5]:
		lane = 5
	case v, ok = <-ch[6]:
		lane = 6
	case v, ok = <-ch[7]:
		lane = 7
	}
	return
}

func selectOver(lanes, n int) (float64, bool) {
	each := n / lanes
	ch := make([]chan int, lanes)
	start := time.Now()
	for i := range ch {
		mine := make(chan int)
		ch[i] = mine
		go func() {
			for i := 0; i < each; i++ {
				mine <- i
			}
			close(mine)
		}()
	}
	sum, count, open := 0, 0, lanes
	for open > 0 {
		v, lane, ok := receive(ch)
		if ok {
			sum += v
			count++
		} else {
			ch[lane] = nil
			open--
		}
	}
	return since(start, n), count == n && sum == lanes*(each*(each-1)/2)
}

func selecting(quick bool) bool {
	n := 1000000
	if quick {
		n = 100000
	}
	two, ok := selectOver(2, n)
	eight, good := selectOver(8, n)
	report("select_2", two, "ns/message")
	report("select_8", eight, "ns/message")
	return ok && good
}
