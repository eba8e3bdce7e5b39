package pitrtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	backups "howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	archives "howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// The cluster whose lineages they all are.
const (
	Namespace = "demo"
	Cluster   = "shop"
	UID       = "uid-shop"
)

// Fill writes the lineages of a case into a store as they lie in a bucket.
func (c *Case) Fill(t testing.TB, store objstore.Store) {
	t.Helper()
	if _, err := layout.Ensure(t.Context(), store, Minute(0)); err != nil {
		t.Fatal(err)
	}
	for i := range c.Lineages {
		c.Lineages[i].fill(t, store)
	}
}

func (l *Lineage) fill(t testing.TB, store objstore.Store) {
	t.Helper()
	claim := layout.Lineage{
		Lineage: l.Name, Writer: layout.Writer{UID: UID, Namespace: Namespace, Name: Cluster}, SystemIdentifier: "7412345678901234567",
		Generation: l.Name[strings.Index(l.Name, "-")+1:], SegmentSize: SegmentSize, PGMajor: 17, Created: l.Created,
	}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.sorted() {
		l.putSegment(t, store, s)
	}
	for _, h := range l.Histories {
		l.put(t, store, postgres.HistoryName(h.Timeline), []byte(text(h)), archives.Info{})
	}
	dir := dataDirectory(t)
	for _, b := range l.Backups {
		l.putBackup(t, store, dir, b)
	}
	for _, id := range l.Damaged {
		if err := store.Put(t.Context(), layout.ManifestKey(l.Name, id), []byte("garbage"), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// text is how PostgreSQL writes a history.
func text(h postgres.TimelineHistory) string {
	var lines strings.Builder
	for _, a := range h.Ancestors {
		fmt.Fprintf(&lines, "%d\t%s\tno recovery target specified\n", a.Timeline, a.LSN)
	}
	return lines.String()
}

func (l *Lineage) put(t testing.TB, store objstore.Store, name string, content []byte, info archives.Info) {
	t.Helper()
	info.Writer = "test"
	if err := archives.New(store).Put(t.Context(), l.Name, name, content, info); err != nil {
		t.Fatal(err)
	}
}

func (l *Lineage) putSegment(t testing.TB, store objstore.Store, s Segment) {
	t.Helper()
	info := archives.Info{Writer: "test", EndLSN: s.EndLSN, LastCommit: s.LastCommit}
	for _, p := range s.Points {
		info.RestorePoints = append(info.RestorePoints, archives.RestorePoint(p))
	}
	if !s.Open {
		l.put(t, store, s.Name(), []byte(s.Name()), info)
		return
	}
	err := archives.New(store).PutOpen(t.Context(), l.Name, s.Segment, 0, 0x60, info, func(w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte{1}, 0x60))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// putBackup writes a backup, and takes the WAL away again that it needs and the lineage hasn't.
func (l *Lineage) putBackup(t testing.TB, store objstore.Store, dir string, b pitr.Backup) {
	t.Helper()
	var lost []string
	for s := b.FirstSegment(SegmentSize); s.Number <= b.LastSegment(SegmentSize).Number; s = s.Next() {
		if !slices.ContainsFunc(l.Segments, func(there Segment) bool { return there.Segment == s }) {
			l.put(t, store, s.Name(), []byte(s.Name()), archives.Info{})
			lost = append(lost, layout.TimelinePrefix(l.Name, s.Timeline)+s.Name())
		}
	}
	_, err := backups.Write(t.Context(), store, backups.Source{
		DataDir: dir, Lineage: l.Name, SystemIdentifier: "7412345678901234567", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: SegmentSize,
		Cluster: backups.Cluster{Namespace: Namespace, Name: Cluster, UID: UID},
		Start: func(context.Context) (backups.Started, error) {
			return backups.Started{LSN: b.StartLSN, Timeline: b.Timeline, Time: b.StopTime.Add(-time.Second)}, nil
		},
		Stop: func(context.Context) (backups.Stopped, error) {
			return backups.Stopped{LSN: b.StopLSN, Time: b.StopTime, BackupLabel: "START WAL LOCATION: " + b.StartLSN.String() + "\n"}, nil
		},
	}, backups.Options{ID: b.ID, Workers: 1, MemoryLimit: 16 << 20, WALTimeout: time.Second, WALPoll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(lost) == 0 {
		return
	}
	if err := store.Delete(t.Context(), lost...); err != nil {
		t.Fatal(err)
	}
}

// dataDirectory looks like PGDATA.
func dataDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": "control"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
