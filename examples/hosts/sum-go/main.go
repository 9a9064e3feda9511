// main.go - weft from Go, by cgo: goroutines and fibers meet at a channel.
//
// usage: CGO_CFLAGS=-IDIR CGO_LDFLAGS="-LDIR -lweft" go run main.go
//
// Go has its own scheduler, and a Go function must not be suspended on a fiber's stack.  So fibers run C, the goroutine is a plain thread to weft (it
// blocks in weft_chan_recv, and Go runs others meanwhile), and Go functions that weft calls are polls, which return.
package main

/*
#include <errno.h>
#include <weft/weft.h>

static weft_chan *channel;
static int produce(void *arg) {
    for (int64_t i = (int64_t)(intptr_t)arg, end = i + 100; i < end; i++)
        if (weft_chan_send(channel, &i, WEFT_NEVER) < 0)
            return -EPIPE;
    return 0;
}
static int produce_all(void *arg) {
    int status;
    (void)arg;
    WEFT_NURSERY(n, &status)
        for (intptr_t first = 0; first <= 2000; first += 1000)
            weft_nursery_go(&n, produce, (void *)first, NULL);
    weft_chan_close(channel);
    return status;
}
static int start(weft_runtime *rt) {
    int error = weft_chan_create(sizeof(int64_t), 2, &channel);
    return error ? error : weft_fiber_go(rt, produce_all, NULL, NULL);
}
static int receive(int64_t *value) { return weft_chan_recv(channel, value, WEFT_NEVER); }
static void end(void) { weft_chan_drop(channel); }

weft_poll count(weft_task *self, void *state); // in Go
static int start_counter(weft_runtime *rt, weft_task **task) { return weft_go(rt, count, NULL, task); }
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

func check(code C.int) {
	if code < 0 {
		fmt.Println(C.GoString(C.weft_strerror(code)))
		os.Exit(1)
	}
}

var polls int

//export count
func count(self *C.weft_task, state unsafe.Pointer) C.weft_poll {
	polls++ // one at a time, on any worker
	if polls < 1000 {
		return C.WEFT_YIELD
	}
	return C.weft_done(self, 0, nil)
}

func main() {
	var rt *C.weft_runtime
	check(C.weft_runtime_create(nil, &rt))
	check(C.start(rt))
	var value C.int64_t
	var sum, numbers int64
	for ; C.receive(&value) == 0; numbers++ {
		sum += int64(value)
	}
	C.end()
	fmt.Println(numbers, "numbers, sum", sum)

	var task *C.weft_task
	check(C.start_counter(rt, &task))
	check(C.weft_join(task, nil, C.WEFT_NEVER))
	C.weft_task_drop(task)
	fmt.Println("polled", polls, "times")
	check(C.weft_runtime_destroy(rt))
}
