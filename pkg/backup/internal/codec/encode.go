package codec

import (
	"github.com/klauspost/compress/zstd"
	"github.com/minio/minlz"
)

// FrameEncoder makes frames, one at a time. How it does that it finds out by a sample.
type FrameEncoder struct {
	zstd   *zstd.Encoder // nil: MinLZ and nothing more
	better int           // a way that takes longer has to save one in this many bytes of the content
	way    way
	blocks [2][]byte // what comes out in between
	trial  []byte
}

// way is one to make a frame; of two that save the same the first is faster.
type way int

const (
	unknown     way = iota
	minlzOften      // MinLZ as long as that saves much, then zstd
	minlzOnce       // MinLZ, then zstd
	minlzBetter     // MinLZ that looks longer for matches, then zstd
	zstdOnly
	asItIs
)

// NewFrameEncoder returns an encoder for one goroutine, for contents of up to maxInput bytes.
func NewFrameEncoder(level Level, maxInput int) (*FrameEncoder, error) {
	e := &FrameEncoder{better: smallGain, trial: make([]byte, 0, sample+sample/8)}
	if level == Quick {
		return e, nil
	}
	if level > Fastest {
		e.better = sample // every byte
	}
	var err error
	e.zstd, err = NewEncoder(level, min(maxInput, frameWindow))
	return e, err
}

const (
	// sample is how much of a content is tried each way, and glance what tells that the next one doesn't compress either.
	sample, glance = 128 << 10, 32 << 10
	// smallGain is what isn't worth the time: of what compresses very well already little is left to save.
	smallGain = 50
)

// Turn says that the next content may be of another kind than those before.
func (e *FrameEncoder) Turn() { e.way = unknown }

// Encode compresses content into the buffer, or into a larger one. What doesn't compress is returned as it is.
func (e *FrameEncoder) Encode(content, buffer []byte) (stored []byte, coding Coding) {
	if e.way == unknown || e.way == asItIs && e.compresses(middle(content, glance)) {
		e.choose(middle(content, sample))
	}
	stored, coding = e.encode(e.way, content, buffer)
	if len(stored) > mostUseful(len(content)) {
		return content, Raw
	}
	return stored, coding
}

func mostUseful(content int) int { return content - content/worthwhile }

// middle is so much of a content; a file may begin in another way than it continues.
func middle(content []byte, size int) []byte {
	if begin := (len(content) - size) / 2; begin > 0 {
		return content[begin : begin+size]
	}
	return content
}

// choose finds the best way for contents like this one.
func (e *FrameEncoder) choose(content []byte) {
	best, margin := mostUseful(len(content)), 0
	e.way = asItIs
	for _, by := range e.ways() {
		if best < margin {
			return // there is less left than another way would have to save
		}
		var coding Coding
		if e.trial, coding = e.encode(by, content, e.trial); by == minlzOften && coding.Passes() == 1 {
			continue // the next way does that with more care
		}
		if len(e.trial) <= best-margin {
			best, margin, e.way = len(e.trial), len(content)/e.better, by
		}
	}
}

func (e *FrameEncoder) ways() []way {
	if e.zstd == nil {
		return []way{minlzOften, minlzOnce}
	}
	return []way{minlzOften, minlzOnce, minlzBetter, zstdOnly}
}

func (e *FrameEncoder) compresses(content []byte) bool {
	by := minlzOften
	if e.zstd != nil {
		by = zstdOnly
	}
	e.trial, _ = e.encode(by, content, e.trial)
	return len(e.trial) <= mostUseful(len(content))
}

func (e *FrameEncoder) encode(by way, content, buffer []byte) ([]byte, Coding) {
	block, passes := content, 0
	switch by {
	case minlzOften:
		block, passes = e.often(content)
	case minlzOnce:
		block, passes = e.block(0, content, minlz.LevelFastest), 1
	case minlzBetter:
		block, passes = e.block(0, content, minlz.LevelBalanced), 1
	case zstdOnly:
	default:
		return content, Raw
	}
	if e.zstd == nil {
		return append(buffer[:0], block...), coded(passes, false)
	}
	return e.zstd.EncodeAll(block, buffer[:0]), coded(passes, true)
}

// often compresses with MinLZ, and what comes out again: rows of a table become the same few commands, again and again. What
// the first time misses in its haste the next ones find.
func (e *FrameEncoder) often(content []byte) (block []byte, passes int) {
	block = e.block(0, content, minlz.LevelSuperFast)
	for passes = 1; passes < mostPasses; passes++ {
		next := e.block(passes%2, block, minlz.LevelFastest)
		if len(next) > len(block)/4*3 {
			break
		}
		block = next
	}
	return block, passes
}

// block compresses once, into one of the buffers for what comes out in between.
func (e *FrameEncoder) block(i int, content []byte, level int) []byte {
	if room := minlz.MaxEncodedLen(len(content)); cap(e.blocks[i]) < room {
		e.blocks[i] = make([]byte, room)
	}
	block, err := minlz.Encode(e.blocks[i], content, level)
	if err != nil {
		panic(err) // only for a level that isn't there, or a frame larger than any
	}
	return block
}
