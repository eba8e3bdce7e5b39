// Package pgmanifest writes PostgreSQL's backup_manifest for a restored backup, so that pg_verifybackup can check it.
package pgmanifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup"
)

// Name of the file in PGDATA.
const Name = "backup_manifest"

// entry is one file, by the names of PostgreSQL's format.
type entry struct {
	Path        string `json:"Path,omitempty"`
	EncodedPath string `json:"Encoded-Path,omitempty"` // hexadecimal, where the path isn't UTF-8
	Size        int64  `json:"Size"`
	Modified    string `json:"Last-Modified"`
	Algorithm   string `json:"Checksum-Algorithm"`
	Checksum    string `json:"Checksum"`
}

type walRange struct {
	Timeline uint32 `json:"Timeline"`
	Start    string `json:"Start-LSN"`
	End      string `json:"End-LSN"`
}

// changed are files of the backup that a restore may have changed.
var changed = map[string]bool{"postgresql.auto.conf": true, "postgresql.conf": true}

// added are the files that a restore makes beside those of the backup.
var added = []string{"backup_label", "tablespace_map"}

// Write writes backup_manifest (version 1, which PostgreSQL from 13 on reads) into a folder with a restored backup. The
// checksums of large files are those that the backup was made with, not of what lies on the disk: so that pg_verifybackup
// compares the one with the other. Where on the disk a file lies that has another name for now, onDisk says.
func Write(ctx context.Context, dir string, m *backup.Manifest, onDisk func(path string) string) error {
	entries, err := entries(ctx, dir, m, onDisk)
	if err != nil {
		return err
	}
	ranges := []walRange{{Timeline: m.Timeline, Start: m.StartLSN.String(), End: m.StopLSN.String()}}
	content, err := render(entries, ranges)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return backup.CreateFile(root, Name, content)
}

func render(entries []entry, ranges []walRange) ([]byte, error) {
	out := &bytes.Buffer{}
	out.WriteString("{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n\"Files\": [")
	if err := list(out, entries); err != nil {
		return nil, err
	}
	out.WriteString("],\n\"WAL-Ranges\": [")
	if err := list(out, ranges); err != nil {
		return nil, err
	}
	out.WriteString("],\n")
	sum := sha256.Sum256(out.Bytes()) // of all but the last line
	fmt.Fprintf(out, "\"Manifest-Checksum\": \"%x\"}\n", sum)
	return out.Bytes(), nil
}

// list writes values a line each.
func list[T any](out *bytes.Buffer, values []T) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for i, value := range values {
		if i > 0 {
			out.Truncate(out.Len() - 1) // the newline
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		if err := encoder.Encode(value); err != nil {
			return err
		}
	}
	return nil
}

// readers is how many files are read at a time.
const readers = 4

func entries(ctx context.Context, dir string, m *backup.Manifest, onDisk func(string) string) ([]entry, error) {
	files := files(dir, m)
	all := make([]entry, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i := range files {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var err error
			all[i], err = describe(&files[i], filepath.Join(dir, onDisk(files[i].Path)))
			return err
		})
	}
	return all, group.Wait()
}

// files are those that pg_verifybackup sees: it follows links, and what lies in pg_wal it leaves out.
func files(dir string, m *backup.Manifest) []backup.File {
	var found []backup.File
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, "pg_wal/") {
			continue
		}
		if f.Kind == backup.Regular {
			found = append(found, f)
		}
		if f.Kind == backup.Symlink {
			found = appendFound(found, dir, f.Path)
		}
	}
	for _, name := range added {
		found = appendFound(found, dir, name)
	}
	return found
}

// appendFound adds a file by what is on the disk, if it is there.
func appendFound(found []backup.File, dir, name string) []backup.File {
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil || !info.Mode().IsRegular() {
		return found
	}
	return append(found, backup.File{Path: name, Kind: backup.Symlink, Size: info.Size(), MTime: info.ModTime()})
}

func describe(f *backup.File, path string) (entry, error) {
	sum, known := uint32(0), false
	if f.Kind == backup.Regular && !changed[f.Path] {
		sum, known = fromParts(f)
	}
	size := f.Size
	if !known {
		var err error
		if sum, size, err = read(path); err != nil {
			return entry{}, err
		}
	}
	// PostgreSQL writes the number as it lies in memory.
	checksum := hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, sum))
	e := entry{Size: size, Modified: f.MTime.UTC().Format(time.DateTime) + " GMT", Algorithm: "CRC32C", Checksum: checksum}
	if utf8.ValidString(f.Path) {
		e.Path = f.Path
	} else {
		e.EncodedPath = hex.EncodeToString([]byte(f.Path))
	}
	return e, nil
}

func read(path string) (sum uint32, size int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("a restored file is missing: %w", err)
	}
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	buffer := make([]byte, 256<<10)
	for {
		n, err := file.Read(buffer)
		sum, size = crc32.Update(sum, table, buffer[:n]), size+int64(n)
		if errors.Is(err, io.EOF) {
			return sum, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}
