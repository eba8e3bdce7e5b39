package heaptest

import (
	"runtime"
	"testing"
)

// Allocated is how many bytes do allocates in all, kept or not. Nothing else may run meanwhile.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// AtMost fails a test if do, which reads that many bytes that anybody may have written, allocates more than so much, and so much for each of
// these bytes.
func AtMost(t testing.TB, most, each, bytes int, do func()) {
	t.Helper()
	if took := Allocated(do); took > uint64(most+each*bytes) {
		t.Errorf("%d bytes took %d KiB, and may take %d", bytes, took>>10, (most+each*bytes)>>10)
	}
}
