package wal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/postgres"
)

// stored is the meta data of an object: what callers see, and what guards the compressed bytes.
type stored struct {
	Header
	Stored       int64  `json:"stored"`       // bytes behind the header
	StoredCRC32C uint32 `json:"storedCRC32C"` // of them
}

const (
	// window fits a processor's cache; WAL compresses no better with a larger one, and faster with this.
	window    = 256 << 10
	maxWindow = 8 << 20 // that a reader accepts
	// headerRoom is kept in front of the compressed bytes, so that the header, which is known last, needs no copy of them.
	headerRoom = 4 << 10
	firstRoom  = 2 << 20 // for the compressed bytes
	// blockSize is that of the blocks of a frame, of which each takes a few bytes more than its content where that doesn't compress.
	blockSize, blockRoom = 128 << 10, 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Effort is how much is done to make a file smaller.
type Effort int

const (
	// Thorough is for who keeps up with what is written.
	Thorough Effort = iota
	// Hasty takes a quarter less time and makes objects that are an eighth larger: for who has fallen behind.
	Hasty
)

// object is one that is being made. It compresses what is written to it, and holds only what comes out.
type object struct {
	effort  Effort
	encoder *zstd.Encoder
	buffer  buffer
	size    int64 // of the content so far
	crc     uint32
}

// buffer takes what the encoder writes.
type buffer struct {
	bytes []byte
	most  int // that it may come to
}

// Write keeps the bytes. Who runs out of the first room gets all that there may be, and no more: growing by and by would take
// twice as much meanwhile.
func (b *buffer) Write(p []byte) (int, error) {
	if need := len(b.bytes) + len(p); need > cap(b.bytes) {
		b.bytes = append(make([]byte, 0, max(need, b.most)), b.bytes...)
	}
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

func newObject(effort Effort) (*object, error) {
	o := &object{buffer: buffer{bytes: make([]byte, headerRoom, firstRoom)}}
	return o, o.use(effort)
}

// use gives it an encoder for that effort. What comes out goes to the same memory.
func (o *object) use(effort Effort) (err error) {
	level := zstd.SpeedDefault
	if effort == Hasty {
		level = zstd.SpeedFastest
	}
	o.effort = effort
	o.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithNoEntropyCompression(effort == Hasty),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false))
	return err
}

// begin empties it, for content of that size.
func (o *object) begin(size int64) {
	o.buffer.bytes, o.size, o.crc = o.buffer.bytes[:headerRoom], 0, 0
	o.buffer.most = headerRoom + blockRoom*(int(size)/blockSize+2) + int(size)
	o.encoder.ResetContentSize(&o.buffer, size)
}

// Write takes the next bytes of the content.
func (o *object) Write(p []byte) (int, error) {
	o.crc = crc32.Update(o.crc, castagnoli, p)
	o.size += int64(len(p))
	return o.encoder.Write(p)
}

// compressed is the content as one zstd frame, once the encoder is closed.
func (o *object) compressed() []byte { return o.buffer.bytes[headerRoom:] }

// seal is the whole object: the header, and the content as one zstd frame.
func (o *object) seal(name string, size int64, info Info) ([]byte, Header, error) {
	if o.size != size {
		return nil, Header{}, fmt.Errorf("%s has %d bytes instead of %d", name, o.size, size)
	}
	if err := o.encoder.Close(); err != nil {
		return nil, Header{}, fmt.Errorf("compress %s: %w", name, err)
	}
	frame := o.compressed()
	meta := stored{
		Header: Header{Name: name, RawSize: size, CRC32C: o.crc, Info: info},
		Stored: int64(len(frame)), StoredCRC32C: codec.CRC(frame),
	}
	header, err := envelope.Seal(envelope.WAL, meta)
	if err != nil {
		return nil, Header{}, err
	}
	if len(header) > headerRoom { // very many restore points
		return append(header, frame...), meta.Header, nil
	}
	begin := headerRoom - len(header)
	copy(o.buffer.bytes[begin:], header)
	return o.buffer.bytes[begin:], meta.Header, nil
}

// parseHeader reads the header at the start of an object, and says how long it is.
func parseHeader(object []byte, name string) (stored, int, error) {
	header := stored{}
	size, err := envelope.Open(object, envelope.WAL, &header)
	if err != nil {
		return stored{}, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if header.Name != name {
		return stored{}, 0, fmt.Errorf("%w: it holds %q", ErrCorrupt, header.Name)
	}
	if header.RawSize < 0 || header.RawSize > postgres.MaxSegSize {
		return stored{}, 0, fmt.Errorf("%w: content of %d bytes", ErrCorrupt, header.RawSize)
	}
	return header, size, nil
}

// open checks the header and the stored bytes of an object, and returns the latter.
func open(object []byte, name string) (header Header, frame []byte, err error) {
	meta, size, err := parseHeader(object, name)
	if err != nil {
		return Header{}, nil, err
	}
	frame = object[size:]
	if int64(len(frame)) != meta.Stored || codec.CRC(frame) != meta.StoredCRC32C {
		return meta.Header, nil, fmt.Errorf("%w: its bytes are not what was stored", ErrCorrupt)
	}
	return meta.Header, frame, nil
}

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// decompress writes the content of a frame, a piece at a time. The header says what it has to be; what was written before
// an error is worth nothing.
func decompress(decoder *zstd.Decoder, frame []byte, header Header, w io.Writer) error {
	if err := decoder.Reset(bytes.NewReader(frame)); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	checked := &checkedWriter{to: w, left: header.RawSize}
	_, err := decoder.WriteTo(checked)
	switch {
	case checked.err != nil:
		return checked.err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case checked.left != 0 || checked.crc != header.CRC32C:
		return fmt.Errorf("%w: the checksum of its content is wrong", ErrCorrupt)
	}
	return nil
}

// checkedWriter passes content on, no more than there should be.
type checkedWriter struct {
	to   io.Writer
	left int64
	crc  uint32
	err  error // of the writer behind it
}

var errLonger = errors.New("it is longer than its header says")

func (c *checkedWriter) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errLonger
	}
	c.crc = crc32.Update(c.crc, castagnoli, p)
	n, err := c.to.Write(p)
	c.err = err
	return n, err
}
