// Package golden makes the small repositories that are checked in below testdata, one for each version of the format and for
// each way to store it. Their tests read them with all that reads repositories: what one version of Howdah has written, every
// later one restores.
package golden

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/sealed"
	"howdah.dev/howdah/pkg/postgres"
)

// What is in each repository.
const (
	Lineage = "7412345678901234567-g1"
	Full    = "full"
	Changed = "incremental"
	// Last is the number of the last segment that is archived as a whole; of the next one there is a piece.
	Last = 5
	// OpenBytes of that piece.
	OpenBytes = 8192
	// SegSize of its WAL.
	SegSize = postgres.MinSegSize
	// Key of the encrypted and signed ones, in hexadecimal. It is no secret.
	Key = "6f7761682d676f6c64656e2d6b65792d6f7761682d676f6c64656e2d6b657921"
	// KeyName is what it is called.
	KeyName = "k1"
	// ContentsFile has the checksum of each file of each backup.
	ContentsFile = "contents.txt"
)

var begin = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// Segment of the WAL.
func Segment(number uint64) postgres.Segment {
	return postgres.Segment{Timeline: 1, Number: number, SegSize: SegSize}
}

// SegmentContent looks like WAL in size only: some bytes, and zeros.
func SegmentContent(number uint64) []byte {
	content := make([]byte, SegSize)
	copy(content, noise(512, number))
	return content
}

// The ways to store a repository, which are the names of the folders as well.
const (
	Plain     = "plain"
	Encrypted = "encrypted"
	Signed    = "signed"
)

// Ways are all of them.
var Ways = []string{Plain, Encrypted, Signed}

// Open the repository in a folder, which is stored in one of the ways.
func Open(dir, way string) (objstore.Store, error) {
	store, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	return Wrap(store, way)
}

// Wrap a store as a repository that is stored in one of the ways needs it.
func Wrap(store objstore.Store, way string) (objstore.Store, error) {
	if way == Plain {
		return store, nil
	}
	keys, err := sealed.ParseKeys(map[string][]byte{KeyName: []byte(Key)}, "")
	if err != nil {
		return nil, err
	}
	return sealed.New(store, sealed.Fixed(keys), sealed.Options{Now: func() time.Time { return begin }, Sign: way == Signed}), nil
}

// Generate makes a repository for each way in a folder, and the list of what is in their backups. But for names and
// keys that are drawn, it makes the same each time.
func Generate(ctx context.Context, dir string) error {
	contents := map[string]string{}
	for _, way := range Ways {
		place := filepath.Join(dir, way)
		if err := os.MkdirAll(place, 0o755); err != nil {
			return err
		}
		store, err := Open(place, way)
		if err != nil {
			return err
		}
		if err := fill(ctx, store, contents); err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
	}
	lines := slices.Sorted(maps.Keys(contents))
	for i, name := range lines {
		lines[i] = contents[name] + "  " + name + "\n"
	}
	return os.WriteFile(filepath.Join(dir, ContentsFile), []byte(strings.Join(lines, "")), 0o644)
}

func fill(ctx context.Context, store objstore.Store, contents map[string]string) error {
	claim := layout.Lineage{
		Lineage: Lineage, Writer: layout.Writer{UID: "uid-shop", Namespace: "demo", Name: "shop"},
		SystemIdentifier: "7412345678901234567", Generation: "g1", SegmentSize: SegSize, PGMajor: 17, Created: begin,
	}
	if _, err := layout.Ensure(ctx, store, begin); err != nil {
		return err
	}
	if _, err := layout.Claim(ctx, store, claim); err != nil {
		return err
	}
	if err := archive(ctx, store); err != nil {
		return err
	}
	data, err := os.MkdirTemp("", "golden")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	if err := database(data); err != nil {
		return err
	}
	if err := backUp(ctx, store, data, Full, "", 2, contents); err != nil {
		return err
	}
	if err := change(data); err != nil {
		return err
	}
	return backUp(ctx, store, data, Changed, Full, 4, contents)
}

// archive puts whole segments, a history of a timeline and a piece of a segment that is still written.
func archive(ctx context.Context, store objstore.Store) error {
	archive := wal.New(store)
	for number := uint64(1); number <= Last; number++ {
		segment, commit := Segment(number), begin.Add(time.Duration(number)*10*time.Minute)
		info := wal.Info{Writer: "demo/shop shop-0", StartLSN: segment.Start(), EndLSN: segment.Start() + SegSize, FirstCommit: &commit, LastCommit: &commit}
		if number == Last {
			info.RestorePoints = []wal.RestorePoint{{Name: "before", LSN: segment.Start() + 64, Time: commit}}
		}
		if err := archive.Put(ctx, Lineage, segment.Name(), SegmentContent(number), info); err != nil {
			return err
		}
	}
	open := Segment(Last + 1)
	info := wal.Info{Writer: "demo/shop shop-0", StartLSN: open.Start(), EndLSN: open.Start() + OpenBytes}
	return archive.PutOpen(ctx, Lineage, open, 0, OpenBytes, info, func(w io.Writer) error {
		_, err := w.Write(SegmentContent(Last + 1)[:OpenBytes])
		return err
	})
}

const (
	table = "base/5/16384"
	pages = 24
)

// database makes a folder that looks like PGDATA, with a table that was last changed before the first backup.
func database(dir string) error {
	for name, content := range map[string][]byte{
		"PG_VERSION": []byte("17\n"), "base/5/PG_VERSION": []byte("17\n"), "global/pg_control": noise(296, 9),
		"global/1262": page(0, Segment(1).Start()), "postgresql.auto.conf": []byte("work_mem = '5MB'\n"),
		"base/5/16385": make([]byte, 4*postgres.PageSize), "schöne Daten/数据 1.conf": []byte("x = 1\n"),
	} {
		if err := write(dir, name, content); err != nil {
			return err
		}
	}
	var content []byte
	for block := range uint32(pages) {
		content = append(content, page(block, Segment(1).Start())...)
	}
	if err := write(dir, table, content); err != nil {
		return err
	}
	made := begin.AddDate(-1, 0, 0) // a database that is newer than the parent is copied as a whole
	return os.Chtimes(filepath.Join(dir, "base/5/PG_VERSION"), made, made)
}

// change a page of the table after the first backup.
func change(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, table), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	const block = 7
	_, err = file.WriteAt(page(block, Segment(3).Start()+64), block*postgres.PageSize)
	return err
}

func backUp(ctx context.Context, store objstore.Store, data, id, parent string, segment uint64, contents map[string]string) error {
	at := begin.Add(time.Duration(segment) * 10 * time.Minute)
	start := Segment(segment).Start() + 0x28
	_, err := backup.Write(ctx, store, backup.Source{
		DataDir: data, Lineage: Lineage, SystemIdentifier: "7412345678901234567", PGVersion: "17.5", PGMajor: 17, DataChecksums: true,
		WALSegmentSize: SegSize, Cluster: backup.Cluster{Namespace: "demo", Name: "shop", UID: "uid-shop"},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: start, Timeline: 1, Time: at}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			label := fmt.Sprintf("START WAL LOCATION: %s (file %s)\n", start, Segment(segment).Name())
			return backup.Stopped{LSN: Segment(segment).Start() + 0x100, Time: at.Add(time.Minute), BackupLabel: label}, nil
		},
	}, backup.Options{ID: id, Parent: parent, Tool: "golden", Workers: 1})
	if err != nil {
		return err
	}
	return Sums(data, id, contents)
}

// Sums adds the checksums of the files of a data directory, by the names of a backup and of the file.
func Sums(dir, id string, sums map[string]string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sums[id+" "+filepath.ToSlash(name)] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
}

// page of a table, with a valid checksum, and small once it is compressed.
func page(block uint32, lsn postgres.LSN) []byte {
	content := make([]byte, postgres.PageSize)
	binary.LittleEndian.PutUint32(content, uint32(lsn>>32))
	binary.LittleEndian.PutUint32(content[4:], uint32(lsn))
	binary.LittleEndian.PutUint16(content[12:], 100)
	binary.LittleEndian.PutUint16(content[14:], 8000)
	copy(content[8000:], noise(192, uint64(block)<<32|uint64(lsn)))
	binary.LittleEndian.PutUint16(content[8:], postgres.PageChecksum(content, block))
	return content
}

func noise(size int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 17))
	content := make([]byte, 0, size+8)
	for len(content) < size {
		content = binary.LittleEndian.AppendUint64(content, random.Uint64())
	}
	return content[:size]
}

func write(dir, name string, content []byte) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
