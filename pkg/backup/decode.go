package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
)

// shortestLine is less than what a file takes in the list of files.
const shortestLine = 40

// errManifest is a manifest that doesn't make sense.
var errManifest = errors.New("the manifest contradicts itself")

// errList is a list of files whose bytes are others than were written.
var errList = errors.New("the list of files is not what was stored")

// openMeta reads the metadata at the start of a manifest's object, and where they end. An *envelope.ShortError says how many bytes
// that needs.
func openMeta(object []byte) (meta manifestMeta, end int, err error) {
	if end, err = envelope.Open(object, envelope.Manifest, &meta); err != nil {
		return meta, 0, err
	}
	if meta.HeaderStored < 0 || meta.HeaderStored > maxHeader || meta.BodyStored < 0 || meta.BodyStored > maxManifest {
		return meta, 0, errManifest
	}
	return meta, end, nil
}

func zstdReader(stored []byte) (*zstd.Decoder, error) {
	return zstd.NewReader(bytes.NewReader(stored), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// unknownFormat is nil for a version that this code reads.
func unknownFormat(version int) error {
	if err := format.Check(version); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

func (h *Header) validate() error {
	if err := unknownFormat(h.Format); err != nil {
		return err
	}
	if h.Encryption != "" {
		return fmt.Errorf("%w: the backup is encrypted by %q, and this version knows none", ErrFormat, h.Encryption)
	}
	if first, last, err := h.WAL.Segments(); err == nil && first.Compare(last) > 0 {
		return fmt.Errorf("%w: the WAL that it needs ends with %s, before it begins with %s", errManifest, h.WAL.Last, h.WAL.First)
	}
	return errors.Join(checkNames(h.Lineage, h.ID), h.checkTexts())
}

// maxPath is as long as a path or the key of an object can be.
const maxPath = 4096

// checkTexts refuses what the text or the time that it stands for can't be: readers keep and show it.
func (h *Header) checkTexts() error {
	for _, text := range []string{
		string(h.Type), h.Parent, h.SystemIdentifier, h.PGVersion, h.Cluster.Namespace, h.Cluster.Name, h.Cluster.UID, h.Cluster.Instance, h.Cluster.Generation,
	} {
		if err := layout.CheckText(text); err != nil {
			return fmt.Errorf("%w: %w", errManifest, err)
		}
	}
	times := []time.Time{h.StartTime, h.StopTime}
	if h.Locked != nil {
		times = append(times, h.Locked.Until)
	}
	for _, at := range times {
		if err := layout.CheckTime(at); err != nil {
			return fmt.Errorf("%w: %w", errManifest, err)
		}
	}
	var paths []string
	if h.Locked != nil {
		paths = append(paths, h.Locked.Object)
	}
	if h.Damage != nil {
		for _, page := range h.Damage.Pages {
			paths = append(paths, page.File)
		}
	}
	for _, path := range paths {
		if len(path) > maxPath {
			return fmt.Errorf("%w: a path has %d bytes, and the longest that there can be has %d", errManifest, len(path), maxPath)
		}
	}
	return nil
}

// decodeManifest reads a whole object.
func decodeManifest(object []byte) (*Manifest, error) {
	meta, end, err := openMeta(object)
	if err != nil {
		return nil, err
	}
	packs := Packs{}
	header, err := readHeaderFrom(bytes.NewReader(object[end:]), meta, packs.add)
	if err != nil {
		return nil, err
	}
	header.Packs = packs
	body := object[end+int(meta.HeaderStored):]
	if int64(len(body)) != meta.BodyStored || codec.CRC(body) != meta.BodyCRC32C {
		return nil, errList
	}
	m := &Manifest{Header: *header}
	if err := m.decodeFiles(body, meta.BodySize); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manifest) decodeFiles(body []byte, size int64) error {
	if size < 0 || size > expanded(int64(len(body)), maxBody) {
		return errManifest
	}
	reader, err := zstdReader(body)
	if err != nil {
		return err
	}
	defer reader.Close()
	content := &countingReader{Reader: io.LimitReader(reader, size+1)}
	m.Files = make([]File, 0, max(0, min(int64(m.Totals.Files), size/shortestLine)))
	lines, frames := bufio.NewScanner(content), &sharedFrames{}
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		file, err := parseFile(lines.Bytes(), frames)
		if err == nil {
			err = m.checkFile(&file)
		}
		if err != nil {
			return fmt.Errorf("file %d (%s): %w", len(m.Files), file.Path, err)
		}
		m.Files = append(m.Files, file)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if content.n != size || totals(m.Files).Files != m.Totals.Files {
		return errManifest
	}
	return checkLinks(m.Files)
}

type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

// totals counts what files tell by themselves.
func totals(files []File) Totals {
	t := Totals{}
	for i := range files {
		if files[i].Kind == Regular {
			t.Files++
			t.LogicalBytes += files[i].Size
		}
	}
	return t
}

// maxFrameContent bounds what a manifest may claim about a frame, with room for larger ones.
const maxFrameContent = 4 * maxFrame

// checkFile refuses what a restore could not do, or should not: paths that lead out of PGDATA, parts
// that overlap or lie outside of their file, frame or pack.
func (m *Manifest) checkFile(f *File) error {
	if !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) != f.Path || f.Path == "." {
		return fmt.Errorf("%w: bad path %q", errManifest, f.Path)
	}
	switch f.Kind {
	case Regular, Dir, Symlink, Tablespace:
	default:
		return fmt.Errorf("%w: unknown kind %q", errManifest, f.Kind)
	}
	if f.Kind != Regular && len(f.Parts) > 0 || f.Size < 0 {
		return errManifest
	}
	end := int64(0)
	for _, p := range f.Parts {
		if p.FileOffset < end || p.FileOffset > f.Size-int64(p.Length) || p.Length == 0 {
			return fmt.Errorf("%w: parts overlap", errManifest)
		}
		end = p.FileOffset + int64(p.Length)
		if err := m.checkFrame(p); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manifest) checkFrame(p Part) error {
	f := p.Frame
	switch {
	case int(f.Pack) >= len(m.Packs),
		int64(f.Offset)+int64(f.Stored) > m.Packs[f.Pack].Size,
		int64(p.Skip)+int64(p.Length) > int64(f.Content),
		f.Content > maxFrameContent, f.Stored > maxFrameContent,
		f.Coding == codec.Raw && f.Stored != f.Content:
		return fmt.Errorf("%w: a part is outside of its frame or pack", errManifest)
	}
	return nil
}
