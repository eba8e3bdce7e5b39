package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// packsKey is where the packs are in a header and in a claim.
const packsKey = "packs"

// visitPack takes one pack of a header. What it was given counts only if the header was read to its end.
type visitPack func(*Pack) error

// forgetPacks is for those who want no packs.
func forgetPacks(*Pack) error { return nil }

// add is visitPack for those who want all of them.
func (p *Packs) add(pack *Pack) error {
	*p = append(*p, *pack)
	return nil
}

// readHeaderFrom reads a header from where it is stored, whose packs it hands to visit one after the other: they may take much more
// memory than the rest.
func readHeaderFrom(stored io.Reader, meta manifestMeta, visit visitPack) (*Header, error) {
	sum := &summed{from: io.LimitReader(stored, meta.HeaderStored)}
	header := &Header{list: fileList{size: meta.BodySize, stored: meta.BodyStored, crc: meta.BodyCRC32C}}
	err := decodeHeader(sum, meta.HeaderStored, header, func(pack *Pack) error {
		header.packBytes += pack.Size
		header.packCount++
		return visit(pack)
	})
	if _, errRest := io.Copy(io.Discard, sum); errRest != nil {
		return nil, fmt.Errorf("the header can't be read: %w", errRest)
	}
	switch {
	case sum.n != meta.HeaderStored:
		return nil, errors.New("the header is cut short")
	case sum.crc != meta.HeaderCRC32C:
		return nil, errors.New("the checksum of the header is wrong")
	case err != nil:
		return nil, err
	}
	return header, header.validate()
}

// summed sums up what is read.
type summed struct {
	from io.Reader
	n    int64
	crc  uint32
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.n, s.crc = s.n+int64(n), codec.AddCRC(s.crc, p[:n])
	return n, err
}

func decodeHeader(stored io.Reader, size int64, header *Header, visit visitPack) error {
	reader, err := zstd.NewReader(stored, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxHeaderWindow))
	if err != nil {
		return err
	}
	defer reader.Close()
	content := &allowance{from: reader, total: expanded(size, maxHeader)}
	rest, err := splitPacks(content, visit)
	if err == nil {
		err = unmarshalRest(rest, header)
	}
	if err != nil {
		version := struct{ Format int }{}
		if json.Unmarshal(closed(rest), &version) == nil && format.Check(version.Format) != nil {
			return unknownFormat(version.Format)
		}
		return fmt.Errorf("the header can't be read: %w", err)
	}
	return nil
}

// closed is the beginning of an object as an object.
func closed(rest []byte) []byte {
	if len(rest) == 0 || rest[len(rest)-1] == '}' && json.Valid(rest) {
		return rest
	}
	return append(bytes.Clone(rest), '}')
}

// unmarshaling lets one large header take the memory for its values at a time.
var unmarshaling sync.Mutex

// usualRest is what the header of most backups has apart from its packs.
const usualRest = 64 << 10

func unmarshalRest(rest []byte, into any) error {
	if len(rest) > usualRest {
		unmarshaling.Lock()
		defer unmarshaling.Unlock()
	}
	return json.Unmarshal(rest, into)
}

// allowance is what may be read until the next pack, and in all.
type allowance struct {
	from        io.Reader
	left, total int64
}

// maxStep bounds what a decoder reads ahead.
const maxStep = 32 << 10

func (a *allowance) Read(p []byte) (int, error) {
	n, err := a.from.Read(p[:min(len(p), maxStep)])
	a.left, a.total = a.left-int64(n), a.total-int64(n)
	switch {
	case a.total < 0:
		return 0, errors.New("it expands to far more than a header has")
	case a.left < 0:
		return 0, fmt.Errorf("it has more than %d MiB apart from its packs", maxRest>>20)
	}
	return n, err
}

// splitPacks reads an object. What it has under "packs" goes to visit, and the rest is returned, as far as there is some.
func splitPacks(content *allowance, visit visitPack) ([]byte, error) {
	s := &splitting{content: content, decoder: json.NewDecoder(content), visit: visit}
	s.renew()
	err := s.run()
	return s.rest.Bytes(), err
}

type splitting struct {
	content *allowance
	decoder *json.Decoder
	visit   visitPack
	rest    bytes.Buffer
	packs   int
}

// renew allows for what the rest may still have, for a pack, and for what the decoder reads ahead, of packs as a rule.
func (s *splitting) renew() { s.content.left = maxRest + 2*maxStep - int64(s.rest.Len()) }

func (s *splitting) run() error {
	if start, err := s.decoder.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("%w: %w", errManifest, err)
	}
	s.rest.WriteByte('{')
	for s.decoder.More() {
		token, err := s.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if strings.EqualFold(key, packsKey) { // as encoding/json finds fields
			err = s.readPacks()
		} else {
			err = s.keep(key)
		}
		if err != nil {
			return err
		}
		s.renew()
	}
	if _, err := s.decoder.Token(); err != nil {
		return err
	}
	s.rest.WriteByte('}')
	if _, err := s.decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", errManifest, err)
	}
	return nil
}

// keep adds a value to the rest.
func (s *splitting) keep(key string) error {
	value := json.RawMessage{}
	if err := s.decoder.Decode(&value); err != nil {
		return err
	}
	name, err := json.Marshal(key)
	if err != nil {
		return err
	}
	if s.rest.Len() > 1 {
		s.rest.WriteByte(',')
	}
	s.rest.Write(name)
	s.rest.WriteByte(':')
	s.rest.Write(value)
	return nil
}

func (s *splitting) readPacks() error {
	start, err := s.decoder.Token()
	if err != nil || start == nil { // null
		return err
	}
	if start != json.Delim('[') {
		return errManifest
	}
	for s.decoder.More() {
		pack := Pack{}
		if err := s.decoder.Decode(&pack); err != nil {
			return err
		}
		if s.packs++; s.packs > maxPacks {
			return fmt.Errorf("%w: it names more than %d packs", errManifest, maxPacks)
		}
		if err := errors.Join(pack.check(), s.visit(&pack)); err != nil {
			return err
		}
		s.renew()
	}
	_, err = s.decoder.Token()
	return err
}

// remote is a part of an object, which is read as it is needed.
type remote struct {
	ctx      context.Context
	store    objstore.Store
	key      string
	off, end int64
	chunk    []byte
	err      error // of the store, which is none of the object
}

// remoteChunk is what is read at a time.
const remoteChunk = 1 << 20

func (r *remote) Read(p []byte) (int, error) {
	if len(r.chunk) == 0 {
		if r.err != nil || r.off >= r.end {
			return 0, errors.Join(r.err, io.EOF)
		}
		r.chunk = make([]byte, min(remoteChunk, r.end-r.off))
		n, err := r.store.ReadAt(r.ctx, r.key, r.chunk, r.off)
		r.off, r.chunk = r.off+int64(n), r.chunk[:n]
		if errors.Is(err, objstore.ErrTorn) {
			r.end, err = r.off, nil // the object ends here
		}
		if r.err = err; err != nil {
			return 0, err
		}
	}
	n := copy(p, r.chunk)
	if r.chunk = r.chunk[n:]; n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// check says whether a pack can be one.
func (p *Pack) check() error {
	if p.Size < 0 || p.Size > maxPackSize {
		return errManifest
	}
	return errors.Join(layout.CheckName("backup", p.Backup), layout.CheckName("pack", p.Name))
}
