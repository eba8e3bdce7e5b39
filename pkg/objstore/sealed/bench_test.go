package sealed

import (
	"context"
	"syscall"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// sink takes everything and gives one object back, so that only the sealing is measured.
type sink struct {
	objstore.Store
	object []byte
}

func (s *sink) Put(context.Context, string, []byte, objstore.PutOptions) error { return nil }

func (s *sink) ReadAt(_ context.Context, _ string, p []byte, off int64) (int, error) {
	return copy(p, s.object[off:]), nil
}

const benchSize = 32 << 20

// cpu reports the CPU time for each GiB, whatever else runs on the machine.
func cpu(b *testing.B, bytes int64) func() {
	used := func() float64 {
		usage := syscall.Rusage{}
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	before := used()
	return func() { b.ReportMetric((used()-before)/(float64(b.N)*float64(bytes)/(1<<30)), "cpu-s/GiB") }
}

func BenchmarkPut(b *testing.B) {
	store, inner := sealedMem(b)
	put(b, store, "o", nil)
	store.inner = &sink{Store: inner}
	body := noise(benchSize)
	b.SetBytes(benchSize)
	defer cpu(b, benchSize)()
	for b.Loop() {
		put(b, store, "o", body)
	}
}

func BenchmarkReadAt(b *testing.B) {
	store, inner := sealedMem(b)
	put(b, store, "o", noise(benchSize))
	store.inner = &sink{Store: inner, object: get(b, inner, "o")}
	p := make([]byte, 8<<20)
	b.SetBytes(int64(len(p)))
	defer cpu(b, int64(len(p)))()
	for b.Loop() {
		if _, err := store.ReadAt(b.Context(), "o", p, 3<<20+5); err != nil {
			b.Fatal(err)
		}
	}
}
