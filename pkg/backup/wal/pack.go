package wal

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/minio/minlz"
)

const (
	// window fits a processor's cache; WAL compresses no better with a larger one, and faster with this.
	window = 256 << 10
	// firstBlock is that of MinLZ's blocks where it is used first, which fits a processor's cache, and nextBlock where it is used
	// again, which makes more of larger ones. A block takes a few bytes more than its content where that doesn't compress.
	firstBlock, nextBlock, blockRoom = 128 << 10, 512 << 10, 16
	// sample is how much of a content says whether MinLZ continues saving where it has been used before.
	sample = 128 << 10
	// mostPasses of MinLZ: what more would save is less than it takes.
	mostPasses = 3
)

// packer compresses a content as it comes. Images of pages, and changes of many rows, say much the same again and again: MinLZ turns
// them into the same few commands, again and again, and those into fewer, of which zstd has little to read. All else zstd
// compresses best by itself.
type packer struct {
	out    io.Writer
	effort Effort
	size   int64
	head   []byte // what came before the way was chosen
	blocks [2][]byte
	zstd   *zstd.Encoder
	first  *minlz.Writer // takes the content
	next   []*minlz.Writer
	// passes is how often MinLZ is used, once it is chosen.
	passes int
	// chain is what the content goes through, the last first.
	chain []io.WriteCloser
}

// begin has it write to out what it makes of a content of that size.
func (p *packer) begin(out io.Writer, effort Effort, size int64) {
	p.out, p.effort, p.size, p.head, p.chain = out, effort, size, p.head[:0], p.chain[:0]
}

func (p *packer) Write(content []byte) (int, error) {
	first := 0
	if len(p.chain) == 0 {
		first = min(len(content), sample-len(p.head))
		if p.head = append(p.head, content[:first]...); len(p.head) < sample {
			return first, nil
		}
		if err := p.choose(); err != nil {
			return 0, err
		}
	}
	n, err := p.chain[len(p.chain)-1].Write(content[first:])
	return first + n, err
}

// choose finds the way by what has come so far, and sends that on it.
func (p *packer) choose() error {
	again := p.savesAgain(p.head)
	p.passes = 0
	switch {
	case len(p.head) == 0: // of which MinLZ makes nothing, not even a beginning
	case p.effort == Hasty && again:
		p.passes = mostPasses
	case p.effort == Hasty:
		p.passes = 1
	case again:
		p.passes = mostPasses - 1
	}
	next := p.out
	if p.effort != Hasty || p.passes == 0 {
		if err := p.useZstd(); err != nil {
			return err
		}
		next = p.zstd
	}
	for again := p.passes - 1; again >= 0; again-- {
		stream := p.stream(again)
		stream.Reset(next)
		p.chain, next = append(p.chain, stream), stream
	}
	_, err := next.Write(p.head)
	return err
}

// stream is of MinLZ, which has been used so often before.
func (p *packer) stream(again int) *minlz.Writer {
	if again == 0 {
		if p.first == nil {
			p.first = newStream(firstBlock, minlz.LevelSuperFast)
		}
		return p.first
	}
	for len(p.next) < again {
		p.next = append(p.next, newStream(nextBlock, minlz.LevelFastest))
	}
	return p.next[again-1]
}

func newStream(block, level int) *minlz.Writer {
	return minlz.NewWriter(nil, minlz.WriterConcurrency(1), minlz.WriterBlockSize(block), minlz.WriterLevel(level))
}

func (p *packer) useZstd() (err error) {
	if p.zstd == nil {
		p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(window), zstd.WithEncoderCRC(false))
		if err != nil {
			return err
		}
	}
	if p.passes == 0 {
		p.zstd.ResetContentSize(p.out, p.size)
	} else {
		p.zstd.Reset(p.out)
	}
	p.chain = append(p.chain, p.zstd)
	return nil
}

// savesAgain says whether MinLZ saves a third or more of what it made of a content itself. Of what is less alike zstd makes less alone.
func (p *packer) savesAgain(content []byte) bool {
	once := p.try(0, content, minlz.LevelSuperFast)
	return len(p.try(1, once, minlz.LevelFastest)) <= len(once)/3*2
}

func (p *packer) try(i int, content []byte, level int) []byte {
	if p.blocks[i] == nil {
		p.blocks[i] = make([]byte, minlz.MaxEncodedLen(minlz.MaxEncodedLen(sample)))
	}
	block, err := minlz.Encode(p.blocks[i], content, level)
	if err != nil {
		panic(err) // only for a level that isn't there, or a block larger than any
	}
	return block
}

// Close ends what was written.
func (p *packer) Close() error {
	if len(p.chain) == 0 {
		if err := p.choose(); err != nil {
			return err
		}
	}
	var errs []error
	for i := len(p.chain) - 1; i >= 0; i-- {
		errs = append(errs, p.chain[i].Close())
	}
	return errors.Join(errs...)
}

// beginOfMinLZ is how a stream of MinLZ begins. One of zstd begins with its own magic.
const beginOfMinLZ = "\xff\x06\x00\x00MinLz"

// maxWindow is the largest window of zstd that a reader accepts.
const maxWindow = 8 << 20

// unpacker decompresses one frame at a time.
type unpacker struct {
	zstd  *zstd.Decoder
	minlz [mostPasses]*minlz.Reader
}

// open is a reader of the content of a frame for which MinLZ was used so often, until the next call.
func (u *unpacker) open(frame []byte, passes int) (content io.Reader, err error) {
	content = bytes.NewReader(frame)
	if !bytes.HasPrefix(frame, []byte(beginOfMinLZ)) {
		if u.zstd == nil {
			u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
		}
		if err = u.zstd.Reset(content); err != nil {
			return nil, err
		}
		content = u.zstd
	}
	for i := range passes {
		if u.minlz[i] == nil {
			u.minlz[i] = minlz.NewReader(nil, minlz.ReaderMaxBlockSize(nextBlock), minlz.ReaderIgnoreCRC()) // the whole content has a checksum of its own
		}
		u.minlz[i].Reset(content)
		content = u.minlz[i]
	}
	return content, nil
}
