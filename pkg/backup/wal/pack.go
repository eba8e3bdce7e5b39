package wal

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

const (
	// window fits a processor's cache; WAL compresses no better with a larger one, and faster with this.
	window = 256 << 10
	// blockSize is that of S2's blocks, of which more than one use makes more, and onceSize where it is used once: that fits a
	// processor's cache. A block takes a few bytes more than its content where that doesn't compress.
	blockSize, onceSize, blockRoom = 512 << 10, 128 << 10, 16
	// sample is how much of a content says whether S2 goes on saving where it has been used before.
	sample = 128 << 10
	// mostPasses of S2: what more would save is less than it takes.
	mostPasses = 3
)

// packer compresses a content as it comes. Images of pages, and changes of many rows, say much the same again and again: S2 turns
// them into the same few commands, again and again, and those into fewer, of which zstd has little to read. All else zstd
// compresses best by itself.
type packer struct {
	out    io.Writer
	effort Effort
	size   int64
	head   []byte // what came before the way was chosen
	blocks [2][]byte
	zstd   *zstd.Encoder
	once   *s2.Writer
	s2     []*s2.Writer
	// passes is how often S2 is used, once it is chosen.
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
	case p.effort == Hasty && again:
		p.passes = mostPasses
	case p.effort == Hasty:
		p.passes = 1
	case again:
		p.passes = mostPasses - 1
	}
	next := p.out
	if p.effort != Hasty {
		if err := p.useZstd(); err != nil {
			return err
		}
		next = p.zstd
	}
	for i := range p.passes {
		stream := p.stream(i)
		stream.Reset(next)
		p.chain, next = append(p.chain, stream), stream
	}
	_, err := next.Write(p.head)
	return err
}

// stream is of S2, the last first.
func (p *packer) stream(i int) *s2.Writer {
	if p.passes == 1 {
		if p.once == nil {
			p.once = newStream(onceSize)
		}
		return p.once
	}
	if len(p.s2) == i {
		p.s2 = append(p.s2, newStream(blockSize))
	}
	return p.s2[i]
}

func newStream(block int) *s2.Writer {
	return s2.NewWriter(nil, s2.WriterConcurrency(1), s2.WriterBlockSize(block))
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

// savesAgain says whether S2 saves a third or more of what it made of a content itself. Of what is less alike zstd makes less alone.
func (p *packer) savesAgain(content []byte) bool {
	for i := range p.blocks {
		if p.blocks[i] == nil {
			p.blocks[i] = make([]byte, s2.MaxEncodedLen(s2.MaxEncodedLen(sample)))
		}
	}
	once := s2.Encode(p.blocks[0], content)
	return len(s2.Encode(p.blocks[1], once)) <= len(once)/3*2
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

// beginOfS2 is how a stream of S2 begins. One of zstd begins with its own magic.
const beginOfS2 = "\xff\x06\x00\x00S2sTwO"

// maxWindow is the largest window of zstd that a reader accepts.
const maxWindow = 8 << 20

// unpacker decompresses one frame at a time.
type unpacker struct {
	zstd *zstd.Decoder
	s2   [mostPasses]*s2.Reader
}

// open is a reader of the content of a frame for which S2 was used so often, until the next call.
func (u *unpacker) open(frame []byte, passes int) (content io.Reader, err error) {
	content = bytes.NewReader(frame)
	if !bytes.HasPrefix(frame, []byte(beginOfS2)) {
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
		if u.s2[i] == nil {
			u.s2[i] = s2.NewReader(nil, s2.ReaderMaxBlockSize(blockSize), s2.ReaderAllocBlock(onceSize),
				s2.ReaderIgnoreCRC()) // the whole content has a checksum of its own
		}
		u.s2[i].Reset(content)
		content = u.s2[i]
	}
	return content, nil
}
