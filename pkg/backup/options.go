package backup

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	defaultMemory  = 80 << 20
	maxPack        = 32 << 20
	minPack        = 8 << 20
	largestPack    = 1 << 30
	maxWorkers     = 8
	defaultWALPoll = 250 * time.Millisecond
	// encoderMemory is about what one encoder keeps beside its input, its output and what is in between.
	encoderMemory = 2 << 20
)

// manyPacks is how many packs a backup should have at most: they are all named in the header of its manifest.
const manyPacks = 1 << 18

// sizes are what a memory limit allows.
type sizes struct {
	workers  int
	frame    int64
	buffers  int // packs in memory: one is filled, the others are on their way
	packSize int64
}

// fit divides the memory: workers first, then several packs in flight rather than large ones. The
// smallest that works is taken where the limit is below it.
func (o Options) fit(total int64) sizes {
	limit := o.MemoryLimit
	if limit == 0 {
		limit = defaultMemory
	}
	s := sizes{workers: workers(o.Workers), frame: frameSize(total)}
	perWorker := s.frame*4 + encoderMemory
	for s.workers > 1 && int64(s.workers)*perWorker > limit/2 {
		s.workers--
	}
	left := limit - int64(s.workers)*perWorker
	s.packSize = min(maxPack, max(minPack, left/5))
	if wanted := total / manyPacks; wanted > s.packSize { // few in flight rather than a header that is too large
		s.packSize = max(s.packSize, min(wanted, left/2, largestPack))
	}
	s.buffers = int(max(2, left/s.packSize))
	return s
}

func workers(wanted int) int {
	if wanted > 0 {
		return wanted
	}
	return min(maxWorkers, runtime.GOMAXPROCS(0))
}

func (o Options) level() codec.Level {
	switch o.Compression {
	case CompressionFast:
		return codec.Quick
	case CompressionSmall:
		return codec.Default
	}
	return codec.Fastest
}

func (o Options) validate() error {
	switch o.Compression {
	case "", CompressionBalanced, CompressionFast, CompressionSmall:
	default:
		return fmt.Errorf("%w: compression %q is unknown; write %s, %s or %s", ErrFormat, o.Compression,
			CompressionBalanced, CompressionFast, CompressionSmall)
	}
	if o.Parent != "" {
		return errors.Join(layout.CheckName("backup", o.ID), layout.CheckName("parent", o.Parent))
	}
	return layout.CheckName("backup", o.ID)
}

func (s Source) validate() error {
	if err := layout.CheckName("lineage", s.Lineage); err != nil {
		return err
	}
	if !postgres.ValidSegSize(s.WALSegmentSize) {
		return fmt.Errorf("%w: WAL segments of %d bytes", ErrFormat, s.WALSegmentSize)
	}
	return nil
}

func (o Options) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}
