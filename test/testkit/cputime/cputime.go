// Package cputime measures what a test costs in processor time, which other programs on the machine change less than how long it takes.
package cputime

import (
	"syscall"
	"testing"
	"time"
)

// Budget fails the test if do uses more processor time.
func Budget(t *testing.T, budget time.Duration, do func()) {
	t.Helper()
	before := used(t)
	do()
	if took := used(t) - before; took > budget {
		t.Errorf("it used %s of processor time, and may use %s", took, budget)
	}
}

// used is the processor time of this process so far.
func used(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
