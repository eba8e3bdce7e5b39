//go:build postgres

package postgres_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestASegmentReachesWhatWasWrittenOfIt(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{"autovacuum": "off", "wal_keep_size": "1GB"}})
		run(t, s, "CREATE TABLE t (s text)")
		run(t, s, "SELECT pg_switch_wal()")
		run(t, s, "INSERT INTO t VALUES ('before')")
		before := position(t, s)
		segment := postgres.SegmentBefore(1, before, postgres.DefaultSegSize)
		path := filepath.Join(s.DataDir, "pg_wal", segment.Name())
		old := content(t, path)
		run(t, s, "SELECT pg_logical_emit_message(true, 'large', repeat('m', 30000))")
		behind := position(t, s)
		now := content(t, path)
		half := bytes.Clone(now) // as after a crash: a page of the message is written, and no more
		clear(half[int(before-segment.Start())/8192*8192+8192+8192:])
		begun := make([]byte, len(now)) // put back to when nothing but the header of its first page was written
		copy(begun, now[:40])
		other := segment
		other.Number++
		for name, c := range map[string]struct {
			file    []byte
			segment postgres.Segment
			lsn     postgres.LSN
			want    bool
		}{
			"what was written then":              {old, segment, before, true},
			"what was written later":             {old, segment, behind, false},
			"later, with it":                     {now, segment, behind, true},
			"a part of a record":                 {half, segment, before + 8192, true},
			"the whole of a record that is half": {half, segment, behind, false},
			"beyond what was ever written":       {now, segment, behind + 8192, false},
			"nothing but a header":               {begun, segment, before, false},
			"nothing but zeroes":                 {make([]byte, len(now)), segment, before, false},
			"another segment of that name":       {now, other, before + postgres.DefaultSegSize, false},
			"less than a page":                   {now[:100], segment, before, false},
		} {
			got, err := postgres.WALReaches(bytes.NewReader(c.file), c.segment, c.lsn)
			if err != nil || got != c.want {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		run(t, s, "SELECT pg_switch_wal()")
		if got, err := postgres.WALReaches(bytes.NewReader(content(t, path)), segment, segment.End()); err != nil || !got {
			t.Errorf("a segment that a switch ended: %v, %v", got, err)
		}
	})
}

func position(t *testing.T, s *pgtest.Server) postgres.LSN {
	t.Helper()
	lsn, err := postgres.ParseLSN(s.SQL("SELECT pg_current_wal_insert_lsn()"))
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
