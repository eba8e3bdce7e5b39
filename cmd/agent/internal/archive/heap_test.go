package archive

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// watchHeap looks at the memory of this process as a running agent has it set, and says in the end what the most was beyond
// that of the beginning. What was given up and not yet collected counts.
func watchHeap(t *testing.T) (peak func() uint64) {
	percent, limit := debug.SetGCPercent(50), debug.SetMemoryLimit(96<<20)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before := read()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		highest := before
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			highest = max(highest, read())
			select {
			case <-stop:
				most <- highest - before
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-most
	}
}
