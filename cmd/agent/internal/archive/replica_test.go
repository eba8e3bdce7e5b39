package archive

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

const (
	segment = "00000002000000000000000A"
	before  = "000000020000000000000009"
	system  = "7"
	history = "00000002.history"
)

// newArchiver makes an archiver of a folder with these files, that waits for little.
func newArchiver(t *testing.T, store objstore.Store, files map[string]string) *Archiver {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "archive_status"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := New(dir, slog.New(slog.DiscardHandler), time.Now, Limits{Patience: 30 * time.Second, LastPatience: 10 * time.Second, Pause: time.Millisecond})
	t.Cleanup(a.Close)
	if store != nil {
		a.SetTarget(&Target{Store: store, Writer: "test", Claim: layout.Lineage{
			Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
			Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15, Created: time.Unix(1, 0).UTC(),
		}})
	}
	return a
}

func (a *Archiver) ask(name string) <-chan error {
	answer := make(chan error, 1)
	go func() { answer <- a.Archive(context.Background(), filepath.Join(a.walDir, name)) }()
	return answer
}

func TestWhatThePrimaryHasArchivedIsKnownByItsLastSegment(t *testing.T) {
	for name, test := range map[string]struct {
		file      string
		confirmed confirmation
		want      bool
	}{
		"nothing was said":                   {segment, confirmation{}, false},
		"there is no archive":                {segment, confirmation{known: true}, true},
		"none is archived yet":               {segment, confirmation{true, true, ""}, false},
		"this one":                           {segment, confirmation{true, true, segment}, true},
		"one before":                         {segment, confirmation{true, true, before}, false},
		"one after":                          {before, confirmation{true, true, segment}, true},
		"one of a later timeline":            {segment, confirmation{true, true, "000000030000000000000001"}, true},
		"one of an earlier timeline":         {segment, confirmation{true, true, "0000000100000000000000FF"}, false},
		"a backup's history, by its segment": {segment + ".00000028.backup", confirmation{true, true, segment}, true},
		"a partial segment, by its name":     {segment + ".partial", confirmation{true, true, before}, false},
	} {
		file, err := postgres.ParseWALFile(test.file, postgres.DefaultSegSize)
		if err != nil {
			t.Fatal(err)
		}
		if got := test.confirmed.covers(file); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAReplicaSaysYesOnceItsPrimaryHas(t *testing.T) {
	store := mem.New()
	a := newArchiver(t, store, map[string]string{segment: "x"})
	a.SetPrimary(false)
	answer := a.ask(segment)
	a.Confirmed(before, true)
	select {
	case err := <-answer:
		t.Fatalf("too early: %v", err)
	default:
	}
	a.Confirmed(segment, true)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if _, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), segment); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("it has pushed: %v", err)
	}
}

// The primary may have been cloned while nothing could be archived: it has only what was written after that.
func TestAReplicaPushesWhatAPrimaryOfALaterTimelineMayNeverHaveHad(t *testing.T) {
	const later, left = "000000030000000000000020", "000000020000000000000020" // the latter is where timeline 2 was left
	store := mem.New()
	a := newArchiver(t, store, map[string]string{segment: wholeSegment(t, segment, 1), left: wholeSegment(t, left, 1), "00000003.history": "2\t0/20000100\treason\n"})
	a.SetPrimary(false)
	a.Confirmed(later, true)
	if err := <-a.ask(segment); err != nil {
		t.Fatal(err)
	}
	if _, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), segment); err != nil {
		t.Errorf("it has not pushed: %v", err)
	}
	if err := <-a.ask(left); err != nil {
		t.Fatal(err)
	}
	if _, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), left); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("it has pushed what nobody needs: %v", err)
	}
}

// Two instances may leave a timeline within the same segment, one after the other. PostgreSQL never asks for a partial segment: what counts is in
// the segment of the new timeline.
func TestAnotherPartialSegmentUnderTheSameNameKeepsNothingFromBeingArchived(t *testing.T) {
	store := mem.New()
	const partial = segment + ".partial"
	for seed := range uint64(2) {
		a := newArchiver(t, store, map[string]string{partial: wholeSegment(t, segment, seed)})
		if err := <-a.ask(partial); err != nil {
			t.Errorf("instance %d: %v", seed, err)
		}
	}
	if content, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), partial); err != nil || string(content) != wholeSegment(t, segment, 0) {
		t.Errorf("%d bytes, which are those of the first: %v", len(content), err)
	}
}

// wholeSegment is one of the default size, whose content depends on the seed.
func wholeSegment(t *testing.T, name string, seed uint64) string {
	t.Helper()
	segment, err := postgres.ParseSegment(name, postgres.DefaultSegSize)
	if err != nil {
		t.Fatal(err)
	}
	return string(walFile(segment, postgres.DefaultSegSize, seed))
}

func TestAReplicaDoesNotWaitForEver(t *testing.T) {
	a := newArchiver(t, mem.New(), map[string]string{segment: "x"})
	a.SetPrimary(false)
	a.limits.Patience = -time.Second + time.Millisecond
	if err := <-a.ask(segment); err == nil || !strings.Contains(err.Error(), "by the primary") {
		t.Error(err)
	}
}

func TestWithoutAnArchiveAReplicaKeepsNothing(t *testing.T) {
	a := newArchiver(t, nil, nil)
	a.SetPrimary(false)
	if err := <-a.ask(segment); err != nil {
		t.Errorf("here: %v", err)
	}
	a = newArchiver(t, mem.New(), nil)
	a.SetPrimary(false)
	a.Confirmed("", false)
	if err := <-a.ask(segment); err != nil {
		t.Errorf("at the primary: %v", err)
	}
}

func TestAReplicaPushesHistories(t *testing.T) {
	store := mem.New()
	a := newArchiver(t, store, map[string]string{history: "1\t0/A000000\tx\n"})
	a.SetPrimary(false)
	for range 2 {
		if err := <-a.ask(history); err != nil {
			t.Fatal(err)
		}
	}
	content, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), history)
	if err != nil || string(content) != "1\t0/A000000\tx\n" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestWhatAReplicaHasKeptItPushesAsPrimary(t *testing.T) {
	a := newArchiver(t, mem.New(), map[string]string{segment: "no WAL"})
	a.limits.Patience = 200 * time.Millisecond
	a.SetPrimary(false)
	answer := a.ask(segment)
	a.SetPrimary(true)
	if err := <-answer; err == nil || !strings.Contains(err.Error(), "holds no WAL") { // so it has tried
		t.Error(err)
	}
}

func TestAServerThatHandsOverWaitsForNothing(t *testing.T) {
	away := fault.New(mem.New(), fault.Plan{Before: func(fault.Call) error { return &objstore.Error{Kind: objstore.ErrUnavailable, Err: errors.New("away")} }})
	for name, test := range map[string]struct {
		primary bool
		end     func(*Archiver, bool)
	}{
		"a primary":               {true, (*Archiver).GivingUp},
		"a replica":               {false, (*Archiver).GivingUp},
		"a replica that is ended": {false, (*Archiver).Stopping},
	} {
		a := newArchiver(t, away, map[string]string{segment: "x"})
		a.SetPrimary(test.primary)
		asked := a.ask(segment)
		test.end(a, true)
		for _, answer := range []<-chan error{asked, a.ask(segment)} {
			if err := <-answer; !errors.Is(err, walsocket.ErrGivenUp) {
				t.Errorf("%s: %v", name, err)
			}
		}
		test.end(a, false)
		if a.server.ending != running {
			t.Errorf("%s has not come back", name)
		}
	}
}

func TestASegmentThatItsTimelineWasLeftInIsNobodys(t *testing.T) {
	a := newArchiver(t, mem.New(), map[string]string{
		history: "1\t0/A800000\tx\n", "00000003.history": "1\t0/A800000\tx\n2\t0/C000000\ty\n",
	})
	for name, want := range map[string]bool{
		"000000010000000000000009": false,
		"00000001000000000000000A": true,
		"00000001000000000000000B": true,
		"00000002000000000000000B": false,
		"00000002000000000000000C": true,
		"00000003000000000000000A": false,
		"00000004000000000000000A": false,
		// The server itself has named it so.
		"00000001000000000000000A.partial": false,
	} {
		file, err := postgres.ParseWALFile(name, postgres.DefaultSegSize)
		if err != nil {
			t.Fatal(err)
		}
		if got := wasLeft(a.walDir, file); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := <-a.ask("00000001000000000000000A"); err != nil {
		t.Error(err)
	}
}

func TestAPromotedServerAsksForWhatItHasForgotten(t *testing.T) {
	a := newArchiver(t, mem.New(), map[string]string{
		history: "1\t0/A800000\tx\n", "000000010000000000000007": "", "000000010000000000000008": "", "000000010000000000000009": "",
		"00000001000000000000000A": "", "00000002000000000000000A": "", "00000002000000000000000B": "",
		"archive_status/000000010000000000000007.done": "", "archive_status/000000010000000000000008.ready": "",
	})
	a.SetPrimary(true)
	names, err := Ready(a.walDir)
	if want := []string{"000000010000000000000008", "000000010000000000000009"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v", names, err)
	}
}

func TestEverythingUpToASegmentIsArchived(t *testing.T) {
	for name, test := range map[string]struct {
		files    []string
		answered string
		want     string
	}{
		"nothing":                        {nil, "", ""},
		"all":                            {[]string{before + ".done", segment + ".done"}, "", segment},
		"one waits":                      {[]string{before + ".done", segment + ".ready"}, segment, before},
		"one waits that came late":       {[]string{before + ".ready", segment + ".done"}, segment, ""},
		"all, and no note is left":       {nil, segment, segment},
		"the notes of those before left": {[]string{segment + ".ready"}, before, before},
		"other files":                    {[]string{history + ".done", before + ".done", segment + ".00000028.backup.done", segment + ".partial.ready"}, "", before},
	} {
		files := map[string]string{}
		for _, file := range test.files {
			files["archive_status/"+file] = ""
		}
		a := newArchiver(t, nil, files)
		a.answered = test.answered
		if got, err := a.Archived(); got != test.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
