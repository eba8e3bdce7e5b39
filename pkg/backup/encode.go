package backup

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
)

// manifestMeta is the meta data of a manifest: it guards the two zstd frames after it, which hold
// the header and the files.
type manifestMeta struct {
	HeaderStored int64  `json:"headStored"` // bytes
	HeaderCRC32C uint32 `json:"headCRC32C"` // of the stored bytes
	BodyStored   int64  `json:"bodyStored"`
	BodyCRC32C   uint32 `json:"bodyCRC32C"`
	BodySize     int64  `json:"bodySize"` // decompressed
}

// line is a file as one line of JSON. A name that isn't UTF-8 is base64 in its own field.
type line struct {
	Path   string    `json:"path,omitempty"`
	Path64 string    `json:"pathBase64,omitempty"`
	Kind   Kind      `json:"kind"`
	Mode   string    `json:"mode,omitempty"` // octal
	Size   int64     `json:"size,omitempty"`
	MTime  time.Time `json:"mtime"`
	Link   string    `json:"link,omitempty"`
	Link64 string    `json:"linkBase64,omitempty"`
	// Parts are written and read on their own.
	Parts json.RawMessage `json:"parts,omitempty"`
}

// partColumns is how many numbers describe a part: fileOffset, length, skip, pack, offset, stored,
// content, storedCRC, contentCRC, coding, and the two halves of the digest. The digest may be left out.
const (
	partColumns    = 12
	minPartColumns = 10
)

// encodeManifest makes the object.
func encodeManifest(m *Manifest) ([]byte, error) {
	header, err := json.Marshal(m.Header)
	if err != nil {
		return nil, err
	}
	encoder, err := codec.NewEncoder(codec.Default, 4<<20)
	if err != nil {
		return nil, err
	}
	if err := checkRest(m.Header, maxRest); err != nil {
		return nil, err
	}
	storedHeader := encoder.EncodeAll(append(header, '\n'), nil)
	if err := checkHeaderSize(len(header)+1, len(storedHeader)); err != nil {
		return nil, err
	}
	body, size, err := encodeFiles(m.Files)
	if err != nil {
		return nil, err
	}
	if err := checkBodySize(size, body.size); err != nil {
		return nil, err
	}
	object, err := envelope.Seal(envelope.Manifest, manifestMeta{
		HeaderStored: int64(len(storedHeader)), HeaderCRC32C: codec.CRC(storedHeader),
		BodyStored: body.size, BodyCRC32C: body.crc, BodySize: size,
	})
	if err != nil {
		return nil, err
	}
	object = slices.Grow(object, len(storedHeader)+int(body.size))
	object = append(object, storedHeader...)
	for _, chunk := range body.chunks {
		object = append(object, chunk...)
	}
	return object, nil
}

// chunked takes in bytes without the memory that one growing buffer would need.
type chunked struct {
	chunks [][]byte
	size   int64
	crc    uint32
}

const chunkSize = 1 << 20

func (c *chunked) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	c.crc = codec.AddCRC(c.crc, p)
	for rest := p; len(rest) > 0; {
		if n := len(c.chunks); n == 0 || len(c.chunks[n-1]) == chunkSize {
			c.chunks = append(c.chunks, make([]byte, 0, chunkSize))
		}
		last := &c.chunks[len(c.chunks)-1]
		n := min(len(rest), chunkSize-len(*last))
		*last, rest = append(*last, rest[:n]...), rest[n:]
	}
	return len(p), nil
}

// encodeFiles compresses the lines while they are made: a large database has many.
func encodeFiles(files []File) (body *chunked, size int64, err error) {
	body = &chunked{}
	writer, err := zstd.NewWriter(body, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, 0, err
	}
	var buffer []byte
	for i := range files {
		buffer, err = appendFile(buffer[:0], &files[i])
		if err != nil {
			return nil, 0, err
		}
		if len(buffer) >= maxLine {
			return nil, 0, fmt.Errorf("%w: what describes %s has %d MiB", ErrTooLarge, files[i].Path, len(buffer)>>20)
		}
		size += int64(len(buffer))
		if _, err := writer.Write(buffer); err != nil {
			return nil, 0, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, 0, err
	}
	return body, size, nil
}

// appendFile appends the line of a file.
func appendFile(b []byte, f *File) ([]byte, error) {
	l := line{Kind: f.Kind, Size: f.Size, MTime: f.MTime}
	l.Path, l.Path64 = printable(f.Path)
	l.Link, l.Link64 = printable(f.Link)
	if f.Kind != Symlink {
		l.Mode = fmt.Sprintf("%04o", f.Mode.Perm())
	}
	encoded, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if len(f.Parts) == 0 {
		return append(append(b, encoded...), '\n'), nil
	}
	b = append(b, encoded[:len(encoded)-1]...)
	b = append(b, `,"parts":[`...)
	for i, part := range f.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPart(b, part)
	}
	return append(b, "]}\n"...), nil
}

func appendPart(b []byte, p Part) []byte {
	columns := [partColumns]int64{
		p.FileOffset, int64(p.Length), int64(p.Skip), int64(p.Frame.Pack), int64(p.Frame.Offset), int64(p.Frame.Stored),
		int64(p.Frame.Content), int64(p.Frame.StoredCRC), int64(p.Frame.ContentCRC),
		int64(p.Frame.Coding), int64(p.Frame.Digest >> 32), int64(uint32(p.Frame.Digest)),
	}
	count := partColumns
	if p.Frame.Digest == 0 {
		count = minPartColumns
	}
	for i, n := range columns[:count] {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}

func printable(name string) (plain, encoded string) {
	if utf8.ValidString(name) {
		return name, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(name))
}
