package wal

import (
	"errors"
	"fmt"
	"hash/crc32"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
)

// stored is the meta data of an object: what callers see, and what guards the compressed bytes.
type stored struct {
	Header
	Stored       int64  `json:"stored"`       // bytes after the header
	StoredCRC32C uint32 `json:"storedCRC32C"` // of them
}

const (
	// headerRoom is kept in front of the compressed bytes, so that the header, which is known last, needs no copy of them.
	headerRoom = 4 << 10
	// firstRoom is for the compressed bytes: what segments of 16 MiB mostly take.
	firstRoom = 2 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Effort is how much is done to make a file smaller.
type Effort int

const (
	// Thorough is for who keeps up with what is written.
	Thorough Effort = iota
	// Hasty leaves zstd out: it takes half of the time and makes larger objects, for who has fallen behind, and waits for the
	// processor and not for the store.
	Hasty
)

// object is one that is being made. It compresses what is written to it, and holds only what comes out.
type object struct {
	packer packer
	buffer buffer
	size   int64 // of the content so far
	crc    uint32
	sum    uint32 // CRC-32C of the whole object, once it is sealed
}

// buffer takes what the packer writes.
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

func newObject() *object {
	return &object{buffer: buffer{bytes: make([]byte, headerRoom, firstRoom)}}
}

// begin empties it, for content of that size.
func (o *object) begin(effort Effort, size int64) {
	o.buffer.bytes, o.size, o.crc = o.buffer.bytes[:headerRoom], 0, 0
	o.buffer.most = headerRoom + mostPasses*blockRoom*(int(size)/firstBlock+2) + int(size)
	o.packer.begin(&o.buffer, effort, size)
}

// Write takes the next bytes of the content.
func (o *object) Write(p []byte) (int, error) {
	o.crc = crc32.Update(o.crc, castagnoli, p)
	o.size += int64(len(p))
	return o.packer.Write(p)
}

// compressed is the content as a frame, once the packer is closed.
func (o *object) compressed() []byte { return o.buffer.bytes[headerRoom:] }

// seal is the whole object: the header, and the content as a frame.
func (o *object) seal(name string, size int64, info Info) ([]byte, Header, error) {
	if o.size != size {
		return nil, Header{}, fmt.Errorf("%s has %d bytes instead of %d", name, o.size, size)
	}
	if err := o.packer.Close(); err != nil {
		return nil, Header{}, fmt.Errorf("compress %s: %w", name, err)
	}
	frame := o.compressed()
	meta := stored{
		Header: Header{Name: name, RawSize: size, CRC32C: o.crc, MinLZ: o.packer.passes, Info: info},
		Stored: int64(len(frame)), StoredCRC32C: codec.CRC(frame),
	}
	header, err := envelope.Seal(envelope.WAL, meta)
	if err != nil {
		return nil, Header{}, err
	}
	o.sum = codec.Combine(codec.CRC(header), meta.StoredCRC32C, meta.Stored)
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
	if errors.Is(err, envelope.ErrUnknown) {
		return stored{}, 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return stored{}, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if header.Name != name {
		return stored{}, 0, fmt.Errorf("%w: it holds %q", ErrCorrupt, header.Name)
	}
	if header.RawSize < 0 || header.RawSize > most(name) {
		return stored{}, 0, fmt.Errorf("%w: content of %d bytes", ErrCorrupt, header.RawSize)
	}
	if header.MinLZ < 0 || header.MinLZ > mostPasses {
		return stored{}, 0, fmt.Errorf("%w: compressed %d times", ErrCorrupt, header.MinLZ)
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
