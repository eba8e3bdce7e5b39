//go:build s3

package backup

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// bed is a data directory, a bucket on a real server, and a way there that can be spoilt.
type bed struct {
	*testing.T
	dir    string
	direct objstore.Store // past the relay
	relay  *storetest.Relay
	store  objstore.Store // through the relay, as a Job has it
	clock  *outage
	source Source
}

// outage is the clock of retries: its time passes by their pauses, and at its end the server comes back.
type outage struct {
	mu    sync.Mutex
	now   time.Time
	until time.Time
	end   func()
}

func (o *outage) Now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

func (o *outage) sleep(_ context.Context, d time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.now.Add(d)
	if o.end != nil && o.now.After(o.until) {
		o.end()
		o.end = nil
	}
	return nil
}

// last makes an outage last from now on.
func (o *outage) last(d time.Duration, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until, o.end = o.now.Add(d), end
}

func newBedOn(t *testing.T, driver, dir string) *bed {
	config := storetest.Server(t, driver)
	b := &bed{T: t, dir: dir, clock: &outage{now: testStart}}
	var err error
	b.direct, err = open.Open(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, b.direct.Delete(context.Background(), keys(t, b.direct)...)) })
	b.relay, config = storetest.NewRelay(t, config)
	b.store, err = open.With(t.Context(), config, retry.Policy{Now: b.clock.Now, Sleep: b.clock.sleep, MaxElapsed: patience, MaxPause: time.Minute})
	must(t, err)
	b.source = source(t, b.direct, dir)
	return b
}

// patience is how long a Job sits out an outage.
const patience = 15 * time.Minute

// write makes a backup of several packs.
func (b *bed) write() error {
	_, err := Write(b.Context(), b.store, b.source, Options{ID: "b1", MemoryLimit: 1})
	return err
}

// succeeds is a backup that says so: it restores, through the spoilt way as well, and nothing else is there.
func (b *bed) succeeds() {
	b.Helper()
	must(b.T, b.write())
	target := filepath.Join(b.TempDir(), "restored")
	must(b.T, roundTrip(b.Context(), b.store, target))
	same(b, b.dir, target, "backup_label")
	manifest, err := ReadManifest(b.Context(), b.direct, testLineage, "b1")
	must(b.T, err)
	must(b.T, onlyUsed(b.T, b.direct, manifest))
	if len(manifest.Packs) < 2 {
		b.Errorf("only %d packs", len(manifest.Packs))
	}
}

// fails is a backup that doesn't. What it could not clear away goes when the store is asked again, as the controller does
// once the Job has ended; and the next run succeeds.
func (b *bed) fails(kind error) {
	b.Helper()
	err := b.write()
	if !errors.Is(err, kind) {
		b.Fatalf("the backup ended with %v", err)
	}
	b.Logf("it says: %s", objstore.Explain(err))
	b.relay.Spoil(nil)
	b.relay.Start()
	_, err = Delete(b.Context(), b.store, testLineage, "b1")
	must(b.T, err)
	b.nothingIsLeft()
	b.succeeds()
}

func (b *bed) nothingIsLeft() {
	b.Helper()
	if left := keys(b, b.direct); contains(left, "/b1/") {
		b.Errorf("left behind: %v", left)
	}
}

func isPut(r storetest.Request, of string) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, of)
}

// stopAt stops the server when the nth request of a kind comes.
func (b *bed) stopAt(n int, of string, lasting time.Duration) {
	seen := 0
	mu := sync.Mutex{}
	b.relay.Spoil(func(r storetest.Request) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if !isPut(r, of) {
			return storetest.Fault{}
		}
		if seen++; seen == n {
			b.clock.last(lasting, b.relay.Start)
			b.relay.Stop()
		}
		return storetest.Fault{}
	})
}

// every spoils each nth request of those that are meant.
func every(n int, meant func(storetest.Request) bool, fault storetest.Fault) func(storetest.Request) storetest.Fault {
	mu, seen := sync.Mutex{}, 0
	return func(r storetest.Request) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if meant(r) {
			if seen++; seen%n == 0 {
				return fault
			}
		}
		return storetest.Fault{}
	}
}

func whatever(storetest.Request) bool { return true }

func puts(r storetest.Request) bool { return r.Method == http.MethodPut }

func packs(r storetest.Request) bool { return isPut(r, "/packs/") }

func reads(r storetest.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/packs/")
}

func deletes(r storetest.Request) bool {
	return r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete")
}

var storeFaults = []struct {
	name string
	test func(*bed)
}{
	{"is killed for 10 s while packs are put", func(b *bed) {
		b.stopAt(2, "/packs/", 10*time.Second)
		b.succeeds()
	}},
	{"is killed for 10 s when the manifest is put", func(b *bed) {
		b.stopAt(1, "/backups/", 10*time.Second)
		b.succeeds()
	}},
	{"is killed for 10 min while packs are put", func(b *bed) {
		b.stopAt(2, "/packs/", 10*time.Minute)
		b.succeeds()
	}},
	{"is killed for longer than a Job waits", func(b *bed) {
		b.stopAt(2, "/packs/", time.Hour)
		b.fails(objstore.ErrUnavailable)
	}},
	{"is killed for longer than a Job waits when the manifest is put", func(b *bed) {
		b.stopAt(1, "/backups/", time.Hour)
		b.fails(objstore.ErrUnavailable)
	}},
	{"is slow", func(b *bed) {
		b.relay.Spoil(every(1, whatever, storetest.Fault{Rate: 10 << 20}))
		b.succeeds()
	}},
	{"throttles every other request", func(b *bed) {
		b.relay.Spoil(every(2, whatever, storetest.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}))
		b.succeeds()
	}},
	{"throttles everything", func(b *bed) {
		b.relay.Spoil(every(1, puts, storetest.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}))
		b.fails(objstore.ErrUnavailable)
	}},
	{"becomes full", func(b *bed) {
		b.relay.Spoil(full(whatever))
		b.fails(objstore.ErrUnavailable)
	}},
	{"cuts requests off in the middle", func(b *bed) {
		b.relay.Spoil(every(2, packs, storetest.Fault{CutIn: 3 << 20}))
		b.succeeds()
	}},
	{"cuts answers off in the middle", func(b *bed) {
		b.relay.Spoil(every(2, reads, storetest.Fault{CutOut: 20_000}))
		b.succeeds()
	}},
	{"does every put and says nothing", func(b *bed) {
		lost := map[string]bool{}
		mu := sync.Mutex{}
		b.relay.Spoil(func(r storetest.Request) storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if !puts(r) || lost[r.URL.Path] {
				return storetest.Fault{}
			}
			lost[r.URL.Path] = true
			return storetest.Fault{NoAnswer: true}
		})
		b.succeeds()
	}},
	{"refuses to delete", func(b *bed) { b.neverDeletes(storetest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}) }},
	{"refuses to delete one by one", func(b *bed) {
		b.neverDeletes(storetest.Fault{Status: http.StatusOK, Body: `<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` +
			`<Error><Key>x</Key><Code>AccessDenied</Code><Message>spoilt</Message></Error></DeleteResult>`})
	}},
}

// full lets the first pack pass and takes no more; the rest is spoilt otherwise.
func full(otherwise func(storetest.Request) bool, fault ...storetest.Fault) func(storetest.Request) storetest.Fault {
	mu, first := sync.Mutex{}, ""
	return func(r storetest.Request) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if packs(r) && first == "" {
			first = r.URL.Path
		}
		switch {
		case puts(r) && r.URL.Path != first:
			return storetest.Fault{Status: http.StatusInsufficientStorage, Code: "XMinioStorageFull"}
		case len(fault) > 0 && otherwise(r):
			return fault[0]
		}
		return storetest.Fault{}
	}
}

// neverDeletes is a run that fails and can't clear away what an earlier one has left. That is said; the next run succeeds
// beside it, and a sweep removes it once it may.
func (b *bed) neverDeletes(refused storetest.Fault) {
	must(b.T, b.direct.Put(b.Context(), layout.PackKey(testLineage, "b1", "earlier-000000"), []byte("x"), objstore.PutOptions{}))
	b.relay.Spoil(full(deletes, refused))
	if err := b.write(); !errors.Is(err, objstore.ErrUnavailable) {
		b.Errorf("the backup ended with %v", err)
	}
	b.relay.Spoil(every(1, deletes, refused))
	_, err := Delete(b.Context(), b.store, testLineage, "b1")
	if !errors.Is(err, objstore.ErrDenied) {
		b.Errorf("what is left was not removed, and the error is %v", err)
	}
	b.Logf("it says: %s", objstore.Explain(err))
	must(b.T, b.write())
	b.relay.Spoil(nil)
	_, _, err = SweepOrphans(b.Context(), b.store, testLineage, time.Now().Add(time.Hour))
	must(b.T, err)
	b.succeeds() // it is there already
	_, err = Delete(b.Context(), b.store, testLineage, "b1")
	must(b.T, err)
	b.nothingIsLeft()
}

func TestWhateverAStoreDoesABackupRestoresOrLeavesNothingBehind(t *testing.T) {
	dir := pgdata(t)
	write(t, dir, "base/5/20000", relationPages(2048, 0, 100, 11), 0o600)
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		for _, fault := range storeFaults {
			t.Run(driver+": one that "+fault.name, func(t *testing.T) {
				t.Parallel()
				fault.test(newBedOn(t, driver, dir))
			})
		}
	}
}
