// Package heaptest measures how much memory a piece of code keeps while it reads a store. It measures what is live, so that
// neither the machine nor the collector's pace matters.
package heaptest

import (
	"runtime"
	"sync"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
)

// sample: what is live is measured before one of this many reads.
const sample = 20

// Peak calls do with a store that collects garbage before some of the reads, and returns by how many bytes the live heap was larger
// than before at most.
func Peak(store objstore.Store, do func(objstore.Store)) int64 {
	var mu sync.Mutex
	before, peak, reads := live(), int64(0), 0
	do(fault.New(store, fault.Plan{Before: func(call fault.Call) error {
		if call.Op != "read" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if reads++; reads%sample == 0 {
			peak = max(peak, live()-before)
		}
		return nil
	}}))
	runtime.KeepAlive(store)
	return peak
}

func live() int64 {
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
