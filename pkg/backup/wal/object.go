package wal

import (
	"fmt"

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

// encode makes the object: the header, and the content as one zstd frame.
func (a *Archive) encode(name string, content []byte, info Info) ([]byte, error) {
	encoder, err := a.encoder()
	if err != nil {
		return nil, err
	}
	defer a.encoders.Put(encoder)
	compressed := encoder.EncodeAll(content, make([]byte, 0, len(content)/3+1024))
	header, err := envelope.Seal(envelope.WAL, stored{
		Header:       Header{Name: name, RawSize: int64(len(content)), CRC32C: codec.CRC(content), Info: info},
		Stored:       int64(len(compressed)),
		StoredCRC32C: codec.CRC(compressed),
	})
	if err != nil {
		return nil, err
	}
	return append(header, compressed...), nil
}

func (a *Archive) encoder() (*zstd.Encoder, error) {
	if encoder, ok := a.encoders.Get().(*zstd.Encoder); ok {
		return encoder, nil
	}
	return codec.NewEncoder(codec.Fastest, 1<<20)
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

func decode(object []byte, name string) ([]byte, Header, error) {
	header, size, err := parseHeader(object, name)
	if err != nil {
		return nil, Header{}, err
	}
	compressed := object[size:]
	if int64(len(compressed)) != header.Stored || codec.CRC(compressed) != header.StoredCRC32C {
		return nil, header.Header, fmt.Errorf("%w: its bytes are not what was stored", ErrCorrupt)
	}
	content := make([]byte, header.RawSize)
	if err := codec.Decode(compressed, content); err != nil {
		return nil, header.Header, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if codec.CRC(content) != header.CRC32C {
		return nil, header.Header, fmt.Errorf("%w: the checksum of its content is wrong", ErrCorrupt)
	}
	return content, header.Header, nil
}
