package bucketsimulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const segmentSize = postgres.MinSegSize

// world is a bucket, and the Kubernetes that know it.
type world struct {
	*testing.T
	rand      *rand.Rand
	store     objstore.Store
	versions  objstore.Versioned // the same; nil: it has none
	locked    *mem.Locked        // the same; nil: it has no locks
	kubes     []*kubernetes
	databases map[string]*database // by lineage
	// given says in which Kubernetes a person has deleted a backup, and held which ones are held, by the Kubernetes and where they are.
	given map[string]*kubernetes
	held  map[string]bool
	// before is what could be restored when the last step began, but for what was given up in it.
	before map[point]bool
	log    []string
}

// database is one that archives into the bucket, until its end.
type database struct {
	*world
	home          *kubernetes
	name, lineage string
	uid           string
	next          uint64 // the number of the segment that is written
	points        []point
	backups       int
	began, wrote  time.Time // as the bucket says
	stuck         bool      // its archive
	ended         bool
	givenUp       bool
	dir           string
}

// point is a state that was archived.
type point struct {
	lineage string
	at      time.Time
	segment uint64 // its last one
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, rand: rand.New(rand.NewPCG(seed, 3)), databases: map[string]*database{}, given: map[string]*kubernetes{}, held: map[string]bool{},
	}
	switch seed % 3 {
	case 0:
		w.store = mem.New()
	case 1:
		bucket := mem.NewVersioned(time.Now)
		w.store, w.versions = bucket, bucket
	case 2:
		w.locked = mem.NewLocked(time.Now, objstore.LockRule{Mode: objstore.LockCompliance, For: time.Duration(5+w.rand.IntN(20)) * 24 * time.Hour})
		w.store, w.versions = w.locked, w.locked
	}
	_, err := layout.Ensure(t.Context(), w.store, time.Now())
	w.must(err)
	w.kubes = []*kubernetes{w.newKubernetes("a"), w.newKubernetes("b")}
	w.kubes[0].apply()
	if w.rand.IntN(2) == 0 {
		w.kubes[1].apply()
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, time.Now().Format("01-02T15:04 ")+fmt.Sprintf(format, args...))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.fail("%v", err)
	}
}

func (w *world) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\n%s\nThe bucket has:\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"), strings.Join(slices.Sorted(maps.Keys(w.keysOf(w.store))), "\n"))
}

// newDatabase creates a cluster.
func (k *kubernetes) newDatabase() {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("db%d", len(k.databases)%2), Namespace: namespace}}
	if k.api.Get(k.Context(), keyOf(cluster), cluster) == nil {
		return
	}
	cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	k.must(k.api.Create(k.Context(), cluster))
	d := &database{world: k.world, home: k, name: cluster.Name, uid: string(cluster.UID), next: 2, began: time.Now(), wrote: time.Now(), dir: k.TempDir()}
	system := fmt.Sprint(7000 + len(k.databases))
	d.lineage = system + "-g1"
	cluster.Status.SystemIdentifier, cluster.Status.DataGeneration = system, "g1"
	k.must(k.api.Status().Update(k.Context(), cluster))
	_, err := layout.Claim(k.Context(), k.store, layout.Lineage{
		Lineage: d.lineage, Writer: layout.Writer{UID: d.uid, Namespace: namespace, Name: d.name}, SegmentSize: segmentSize, Created: time.Now(),
	})
	k.must(err)
	for _, name := range []string{"global/pg_control", "base/5/1", "base/5/2", "base/5/3"} {
		k.must(os.MkdirAll(filepath.Join(d.dir, filepath.Dir(name)), 0o700))
		k.must(os.WriteFile(filepath.Join(d.dir, name), []byte(strings.Repeat(name, 100)), 0o600))
	}
	k.must(os.WriteFile(filepath.Join(d.dir, "PG_VERSION"), []byte("17\n"), 0o600))
	k.databases[d.lineage], k.wrote[d.lineage] = d, true
	k.note("%s has database %s in lineage %s", k.name, d.name, d.lineage)
	d.backUp()
}

// write fills some segments, and archives them if it can.
func (d *database) write() {
	if d.ended || d.stuck {
		return
	}
	name := fmt.Sprintf("base/5/%d", 1+d.rand.IntN(3))
	d.must(os.WriteFile(filepath.Join(d.dir, name), fmt.Appendf(nil, "%d of %s", d.rand.Uint64(), strings.Repeat(name, 100)), 0o600))
	for range 1 + d.rand.IntN(3) {
		d.archive()
	}
}

func (d *database) archive() {
	name := postgres.SegmentOf(1, postgres.LSN(d.next*segmentSize), segmentSize).Name()
	d.must(wal.New(d.store).Put(d.Context(), d.lineage, name, make([]byte, segmentSize), wal.Info{Writer: "model"}))
	d.wrote = time.Now()
	d.points = append(d.points, point{lineage: d.lineage, at: d.wrote, segment: d.next})
	d.next++
}

// backUp takes a backup, unless the Job is killed.
func (d *database) backUp() {
	if d.ended || d.stuck {
		return
	}
	d.write()
	d.backups++
	id, skew := fmt.Sprintf("b%03d", d.backups), time.Duration(d.rand.IntN(1800)-900)*time.Second
	source := backup.Source{
		DataDir: d.dir, Lineage: d.lineage, SystemIdentifier: strings.TrimSuffix(d.lineage, "-g1"), PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segmentSize,
		Cluster: backup.Cluster{Namespace: namespace, Name: d.name, UID: d.uid},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: postgres.LSN(d.next*segmentSize + 40), Timeline: 1, Time: time.Now().Add(skew)}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			stop := postgres.LSN(d.next*segmentSize + 100)
			d.archive()
			return backup.Stopped{LSN: stop, Time: time.Now().Add(skew), BackupLabel: "x"}, nil
		},
	}
	options := backup.Options{ID: id, MemoryLimit: 1, Workers: 1}
	if entries := d.list(d.store, d.lineage); len(entries) > 0 && d.rand.IntN(2) == 0 {
		options.Parent = entries[d.rand.IntN(len(entries))].ID
	}
	store := d.store
	if d.rand.IntN(5) == 0 {
		from := 1 + d.rand.IntN(25)
		store = fault.New(d.store, fault.Plan{Before: func(c fault.Call) error {
			if c.Number > from {
				return errCrash
			}
			return nil
		}})
	}
	_, err := backup.Write(d.Context(), store, source, options)
	d.wrote = time.Now()
	d.note("backup %s of %s of %q: %v", id, d.lineage, options.Parent, err)
	if err == nil {
		d.home.record(d, id)
	}
}

func (w *world) list(store objstore.Store, lineage string) []backup.Entry {
	entries, err := backup.List(w.Context(), store, lineage)
	w.must(err)
	return entries
}

// living are the databases that write, in order.
func (w *world) living() []*database {
	var living []*database
	for _, d := range w.databases {
		if !d.ended {
			living = append(living, d)
		}
	}
	slices.SortFunc(living, func(a, b *database) int { return strings.Compare(a.lineage, b.lineage) })
	return living
}

// live lets something happen to a database.
func (w *world) live() {
	living := w.living()
	if len(living) == 0 {
		return
	}
	d := living[w.rand.IntN(len(living))]
	switch n := w.rand.IntN(16); {
	case n < 5:
		d.write()
	case n < 13:
		d.backUp()
	case n < 15:
		d.stuck = !d.stuck
		d.note("the archive of %s is stuck: %t", d.lineage, d.stuck)
	default:
		d.drop()
	}
}

// drop deletes a cluster, whose archive stays.
func (d *database) drop() {
	d.ended = true
	d.note("%s is deleted in %s", d.name, d.home.name)
	d.must(d.home.api.Delete(d.Context(), &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: namespace}}))
}

// neighbourWrites is what a database of another Kubernetes may do at any moment; nil if there is none.
func (w *world) neighbourWrites(k *kubernetes) func() {
	for _, d := range w.living() {
		if d.home != k {
			return func() {
				d.stuck = false
				d.backUp()
			}
		}
	}
	return nil
}

// lose loses the first Kubernetes, for good. Its manifests are applied to the other one then or later.
func (w *world) lose() {
	k := w.kubes[0]
	if k.lost {
		return
	}
	k.lost = true
	for _, d := range w.databases {
		d.ended = d.ended || d.home == k
	}
	w.note("%s is lost", k.name)
}

// keysOf are those of the objects in the bucket.
func (w *world) keysOf(store objstore.Store) map[string]bool {
	keys := map[string]bool{}
	for info, err := range store.List(w.Context(), "", "") {
		w.must(err)
		keys[info.Key] = true
	}
	return keys
}
