package bucketsimulation

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/postgres"
)

const day = 24 * time.Hour

// slack is how far clocks may be apart: the controller's, the bucket's and the database's; and for how long a controller works.
const slack = time.Hour

func keyOf(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// restorable are the points to which the bucket leads, but for those that only backups lead to which a person has deleted, or which
// a rule is about to remove.
func (w *world) restorable(store objstore.Store) map[point]bool {
	have, found, going := w.keysOf(store), map[point]bool{}, w.going()
	for lineage, d := range w.databases {
		for _, e := range w.list(store, lineage) {
			if e.Err != nil {
				w.fail("backup %s/%s: %v", lineage, e.ID, e.Err)
			}
			if where := lineage + "/" + e.ID; w.given[where] != nil || going[where] || !whole(e.Header, have) {
				continue
			}
			first, last, err := e.Header.WAL.Segments()
			w.must(err)
			reached := first.Number
			for have[w.walKey(lineage, reached)] {
				reached++
			}
			for _, p := range d.points {
				if p.segment >= last.Number && p.segment < reached {
					found[p] = true
				}
			}
		}
	}
	return found
}

// going are the backups that a rule is removing.
func (w *world) going() map[string]bool {
	going := map[string]bool{}
	for _, k := range w.kubes {
		for _, b := range k.objects() {
			if !k.lost && !b.DeletionTimestamp.IsZero() && b.Annotations[v1alpha1.AnnotationExpired] != "" {
				going[b.Status.Plan.Lineage+"/"+b.Status.Plan.ID] = true
			}
		}
	}
	return going
}

func (w *world) walKey(lineage string, segment uint64) string {
	key, err := wal.Key(lineage, postgres.SegmentOf(1, postgres.LSN(segment*segmentSize), segmentSize).Name())
	w.must(err)
	return key
}

// whole says that all packs of a backup are there.
func whole(header *backup.Header, have map[string]bool) bool {
	for _, pack := range header.Packs {
		if !have[layout.PackKey(header.Lineage, pack.Backup, pack.Name)] {
			return false
		}
	}
	return true
}

// givenUp says whether a person has given a point up: with its lineage, or by a rule.
func (w *world) givenUp(p point) bool {
	d := w.databases[p.lineage]
	if d.givenUp {
		return true
	}
	last := p == d.points[len(d.points)-1]
	for _, k := range w.kubes {
		if last && !w.deletedBeside(k, d) {
			continue // no rule gives up what could be restored last
		}
		if k.mayRemove(d, p) {
			return true
		}
	}
	return false
}

// deletedBeside says that somebody deletes backups of a database in the other Kubernetes, of which this one knows nothing until they
// are gone.
func (w *world) deletedBeside(k *kubernetes, d *database) bool {
	for where, by := range w.given {
		if by != k && strings.HasPrefix(where, d.lineage) {
			return true
		}
	}
	return false
}

// mayRemove says whether the rules of a Kubernetes let a point go that is not the last one.
func (k *kubernetes) mayRemove(d *database, p point) bool {
	if k.lost || k.since.IsZero() {
		return false
	}
	now, known := time.Now(), later(k.since, d.began)
	if k.policy.NoticePeriod == nil && now.Sub(later(known, k.policySince)) < day-slack {
		return false // it has to be shown for a day
	}
	age := now.Sub(p.at)
	if d.home != k || d.ended {
		if now.Sub(later(known, d.wrote)) < day-slack {
			return false // who writes it may be anywhere
		}
		if !k.wrote[d.lineage] && k.policy.RecoveryWindow == "" && k.policy.KeepWithin == "" {
			return false // counts say nothing of what others have promised
		}
		age = d.wrote.Sub(p.at) + now.Sub(later(known, d.wrote))
	}
	return age > k.window()-slack
}

// sharesWith says that two have rules for one bucket. A hold binds only the Kubernetes in which it is.
func (k *kubernetes) sharesWith(other *kubernetes) bool {
	return !k.since.IsZero() && !other.since.IsZero()
}

func (k *kubernetes) window() time.Duration {
	if k.policy.RecoveryWindow == "" {
		return 0
	}
	days, _ := time.ParseDuration(string(k.policy.RecoveryWindow[:len(k.policy.RecoveryWindow)-1]) + "h")
	return 24 * days
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// check makes sure that what could be restored a moment ago, and was not given up by a person, still can be.
func (w *world) check() {
	after := w.restorable(w.store)
	for p := range w.before {
		if !after[p] && !w.givenUp(p) {
			w.fail("segment %X of %s in lineage %s could be restored, and nobody gave it up", p.segment, p.at.Format("01-02T15:04"), p.lineage)
		}
	}
	have := w.keysOf(w.store)
	for where, held := range w.held {
		lineage, id := where[1:len("a7000-g1")], where[len("a7000-g1/"):]
		if held && w.given[where[1:]] == nil && !w.kubes[0].sharesWith(w.kubes[1]) && w.kube(where[:1]).since.Before(time.Now()) && !w.kube(where[:1]).lost && !have[layout.ManifestKey(lineage, id)] {
			w.fail("backup %s is held, and gone", where)
		}
	}
}

func (w *world) kube(name string) *kubernetes { return w.kubes[name[0]-'a'] }

// verify reads every backup that is there.
func (w *world) verify(store objstore.Store) {
	for lineage := range w.databases {
		for _, e := range w.list(store, lineage) {
			verified, err := backup.VerifyBackup(w.Context(), store, lineage, e.ID, backup.VerifyOptions{Workers: 1, MemoryLimit: 1})
			if err != nil || !verified.Whole {
				w.fail("backup %s/%s: %v", lineage, e.ID, err)
			}
		}
	}
}

// robbed: whoever has all rights deletes all. In a bucket with versions everything is still there as of an earlier time, and in one with locks, what
// backups have promised stays when everything is deleted for good that is not locked.
func (w *world) robbed() {
	if w.versions == nil {
		return
	}
	at, before := time.Now(), w.restorable(w.store)
	promised := map[string]time.Time{}
	for lineage := range w.databases {
		for _, e := range w.list(w.store, lineage) {
			if e.Header.Locked != nil {
				promised[lineage+"/"+e.ID] = e.Header.Locked.Until
			}
		}
	}
	time.Sleep(time.Hour)
	for key := range w.keysOf(w.store) {
		w.must(w.store.Delete(w.Context(), key))
	}
	past := asof.New(w.versions, at)
	if after := w.restorable(past); len(after) != len(before) {
		w.fail("%d points could be restored, and %d as of that time", len(before), len(after))
	}
	w.verify(past)
	if lineages, err := inventory.NewReader().Read(w.Context(), past); err != nil || len(lineages) != len(w.databases) {
		w.fail("%d lineages as of that time: %v", len(lineages), err)
	}
	if w.locked == nil {
		return
	}
	time.Sleep(time.Duration(w.rand.IntN(15)) * day)
	w.locked.Rob()
	past = asof.New(w.versions, at)
	for where, until := range promised {
		if time.Now().After(until) {
			continue
		}
		lineage, id := where[:len("7000-g1")], where[len("7000-g1/"):]
		if verified, err := backup.VerifyBackup(w.Context(), past, lineage, id, backup.VerifyOptions{Workers: 1, MemoryLimit: 1}); err != nil || !verified.Whole {
			w.fail("backup %s was locked until %s: %v", where, until, err)
		}
	}
}

// step lets something happen.
func (w *world) step() {
	k := w.kubes[w.rand.IntN(2)]
	switch n := w.rand.IntN(40); {
	case n < 14:
		w.live()
	case n < 16 && !k.lost:
		k.apply()
		k.newDatabase()
	case n < 17 && !k.lost && !k.since.IsZero():
		k.newPolicy()
	case n < 20 && !k.lost:
		k.somebody()
	case n < 21 && !k.lost:
		k.giveUp()
	case n < 22 && len(w.databases) > 1:
		w.lose()
	case n < 23 && !k.lost:
		k.forget()
	case n < 31:
		k.work()
	default:
		time.Sleep(time.Duration(w.rand.IntN(60)) * time.Hour)
	}
}

// forget loses the status of the repository, as a restored manifest does.
func (k *kubernetes) forget() {
	for _, repo := range k.repos() {
		repo.Status = v1alpha1.BackupRepositoryStatus{}
		k.must(k.api.Status().Update(k.Context(), &repo))
	}
	k.restart()
}

func history(t *testing.T, seed uint64, steps int) {
	w := newWorld(t, seed)
	defer func() {
		for _, k := range w.kubes {
			k.end()
		}
	}()
	w.kubes[0].newDatabase()
	for range steps {
		w.before = w.restorable(w.store)
		w.step()
		w.check()
	}
	w.verify(w.store)
	w.robbed()
}

// TestWhatCouldBeRestoredYesterdayAndWasNotGivenUpCanBeRestoredToday lets two Kubernetes with wrong clocks share a bucket, one of them
// be lost, and everybody crash.
func TestWhatCouldBeRestoredYesterdayAndWasNotGivenUpCanBeRestoredToday(t *testing.T) {
	base, histories := uint64(os.Getpid())<<20, uint64(40)
	if testing.Short() {
		histories = 2
	}
	if seed, err := strconv.ParseUint(os.Getenv("HISTORIES_SEED"), 10, 64); err == nil { // to see one again
		base, histories = seed, 1
	}
	for seed := range histories {
		t.Logf("seed %d", base+seed)
		synctest.Test(t, func(t *testing.T) { history(t, base+seed, 80) })
	}
}
