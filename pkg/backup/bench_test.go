package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/pkg/objstore/mem"
)

// benchData is the data directory to measure with: HOWDAH_BENCH_PGDATA, or one that is made.
func benchData(b *testing.B) (dir string, size int64) {
	b.Helper()
	dir = os.Getenv("HOWDAH_BENCH_PGDATA")
	if dir == "" {
		dir = pgdata(b)
		bulk(b, dir, 256)
	}
	entries, err := scan(b.Context(), dir)
	must(b, err)
	for _, e := range entries {
		size += e.Size
	}
	return dir, size
}

func BenchmarkWrite(b *testing.B) {
	dir, size := benchData(b)
	for _, compression := range []Compression{CompressionFast, CompressionBalanced, CompressionSmall} {
		b.Run(string(compression), func(b *testing.B) {
			b.SetBytes(size)
			stored := int64(0)
			for b.Loop() {
				store := onDisk{Store: mem.New(), dir: b.TempDir()}
				manifest, err := Write(b.Context(), store, source(b, store, dir), Options{ID: "b1", Compression: compression})
				must(b, err)
				stored = manifest.Totals.StoredBytes
			}
			b.ReportMetric(float64(stored)/(1<<20), "MiB-stored")
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	dir, size := benchData(b)
	store := onDisk{Store: mem.New(), dir: b.TempDir()}
	manifest, err := Write(b.Context(), store, source(b, store, dir), Options{ID: "b1"})
	must(b, err)
	b.SetBytes(size)
	place, n := b.TempDir(), 0
	for b.Loop() {
		n++
		target := filepath.Join(place, fmt.Sprint(n))
		must(b, Restore(b.Context(), store, manifest, target, RestoreOptions{}))
		b.StopTimer()
		must(b, os.RemoveAll(target))
		b.StartTimer()
	}
}

func BenchmarkVerify(b *testing.B) {
	dir, size := benchData(b)
	store := onDisk{Store: mem.New(), dir: b.TempDir()}
	manifest, err := Write(b.Context(), store, source(b, store, dir), Options{ID: "b1"})
	must(b, err)
	b.SetBytes(size)
	for b.Loop() {
		_, err := Verify(b.Context(), store, manifest, VerifyOptions{shortWAL: true})
		must(b, err)
	}
}
