// Go's goroutines, on one processor (GOMAXPROCS=1): the counterpart of a loop with user-level
// threads.
//
// Two goroutines wake each other by unbuffered channels, as Go's documentation teaches. The command
// line and the output are those of peer.h.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

type cost struct {
	name, unit string
	measure    func(count uint64) (done, total uint64)
}

var costs = []cost{
	{"spawn", "ns", timed(spawn)},
	{"switch", "ns", timed(wake)},
	{"alternate", "ns", alternate},
	{"yield-2", "ns", yields(2)},
	{"yield-1000", "ns", yields(1000)},
	{"lock", "ns", timed(lock)},
	{"contended", "ns", timed(contended)},
	{"condition", "ns", timed(condition)},
	{"memory", "bytes", memory},
}

func main() {
	runtime.GOMAXPROCS(1)
	var count uint64
	if len(os.Args) == 3 {
		count, _ = strconv.ParseUint(os.Args[2], 10, 64)
	}
	if count == 0 {
		fmt.Fprintf(os.Stderr, "usage: %s COST COUNT\n", os.Args[0])
		os.Exit(2)
	}
	for _, cost := range costs {
		if cost.name == os.Args[1] {
			done, total := cost.measure(count)
			fmt.Println(cost.name, done, total, cost.unit)
			return
		}
	}
	fmt.Println("unavailable it has no such thing")
}

func timed(body func(count uint64)) func(uint64) (uint64, uint64) {
	return func(count uint64) (uint64, uint64) {
		start := time.Now()
		body(count)
		return count, uint64(time.Since(start))
	}
}

func spawn(count uint64) {
	var group sync.WaitGroup
	for range count {
		group.Add(1)
		go group.Done()
		group.Wait()
	}
}

func wake(count uint64) {
	ping, pong := make(chan struct{}), make(chan struct{})
	go func() {
		for range count {
			<-ping
			pong <- struct{}{}
		}
	}()
	for range count {
		ping <- struct{}{}
		<-pong
	}
}

func yields(goroutines uint64) func(uint64) (uint64, uint64) {
	return func(count uint64) (uint64, uint64) {
		each := (count + goroutines - 1) / goroutines
		_, total := timed(func(uint64) {
			var group sync.WaitGroup
			for range goroutines {
				group.Add(1)
				go func() {
					defer group.Done()
					for range each {
						runtime.Gosched()
					}
				}()
			}
			group.Wait()
		})(each)
		return each * goroutines, total
	}
}

// alternate yields, which is cheaper than channels.
func alternate(count uint64) (uint64, uint64) {
	_, total := yields(2)(2 * count)
	return count, total
}

func lock(count uint64) {
	var mutex sync.Mutex
	for range count {
		mutex.Lock()
		mutex.Unlock()
	}
}

func contended(count uint64) {
	var mutex sync.Mutex
	var group sync.WaitGroup
	for me := range uint64(2) {
		group.Add(1)
		go func() {
			defer group.Done()
			for range (count + me) / 2 {
				mutex.Lock()
				runtime.Gosched()
				mutex.Unlock()
				runtime.Gosched()
			}
		}()
	}
	group.Wait()
}

func condition(count uint64) {
	var mutex sync.Mutex
	told := [2]*sync.Cond{sync.NewCond(&mutex), sync.NewCond(&mutex)}
	turn := 0
	play := func(me int) {
		for range count {
			mutex.Lock()
			for turn != me {
				told[me].Wait()
			}
			turn = 1 - me
			told[1-me].Signal()
			mutex.Unlock()
		}
	}
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		play(1)
	}()
	play(0)
	group.Wait()
}

func memory(count uint64) (uint64, uint64) {
	never := make(chan struct{})
	var waiting uint64
	before := ownMemory()
	for range count {
		go func() {
			waiting++
			<-never
		}()
	}
	for waiting < count {
		runtime.Gosched()
	}
	return count, ownMemory() - before
}

// ownMemory is this process's anonymous memory, in bytes.
func ownMemory() uint64 {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Anonymous:" {
			kibibytes, _ := strconv.ParseUint(fields[1], 10, 64)
			return kibibytes * 1024
		}
	}
	fmt.Fprintln(os.Stderr, "/proc/self/smaps_rollup has no line `Anonymous: N kB`")
	os.Exit(1)
	return 0
}
