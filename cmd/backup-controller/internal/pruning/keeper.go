// Package pruning looks through repositories, says what is in them, and removes what spec.retention doesn't keep. It works
// beside the reconcile loop, and leaves nothing half done that its next run would not finish.
package pruning

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/catalogue"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/pkg/background"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters;restores,verbs=get;list;watch

const (
	// Interval is the time between two runs.
	Interval = 10 * time.Minute
	// timeout of one run; the next one continues where it ended.
	timeout = 30 * time.Minute
	// DeletesPerSecond bounds how many objects of a store are deleted at a time.
	DeletesPerSecond = 500
	// removalsPerRun bounds how many backups one run removes.
	removalsPerRun = 100
	// orphanAge is how old packs must be that no manifest points at before they are removed, and sweepInterval the time
	// between two looks for such.
	orphanAge     = 24 * time.Hour
	sweepInterval = 24 * time.Hour
	// sweepTime of a run is for such looks.
	sweepTime = timeout / 3
)

// Pruner keeps repositories as their specs say.
type Pruner struct {
	manager.Dependencies
	Open repostore.Opener
	// Deletions is locked for a lineage while something is deleted from it.
	Deletions *deletionlock.Locks

	mu    sync.Mutex
	known map[types.UID]*memory
}

// memory is what is known of a repository from the run before.
type memory struct {
	running sync.Mutex
	reader  *inventory.Reader
	// swept says when each lineage was last looked through for what interrupted backups have left.
	swept map[string]time.Time
	// sweeps are those that have not come to their end.
	sweeps map[string]*backup.Sweep
	// seen says since when the lineages are known, also those for which the status has no room.
	seen map[string]time.Time
	// written says which of them were written here.
	written map[string]bool
	// read says since when readers of whom only the bucket tells keep everything in a lineage.
	read map[string]time.Time
	// going are the backups that have an object because they are removed, as the last run has found them; nil: there was none yet.
	going map[v1alpha1.FoundBackup]bool
	// described are all lineages, as the last run has found them; nil: none has ended.
	described atomic.Pointer[[]v1alpha1.LineageStatus]
	// manifests are those of Backups, as the last run has looked for them; nil: none did.
	manifests atomic.Pointer[manifests]
}

// Runner makes the Runner of Pruner.Run.
func Runner(ctx context.Context) *background.Runner[Result] {
	return background.New[Result](ctx, background.Options{Timeout: timeout, Limit: 6, Now: time.Now})
}

func (k *Pruner) memoryOf(uid types.UID) *memory {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[types.UID]*memory{}
	}
	if k.known[uid] == nil {
		k.known[uid] = &memory{reader: inventory.NewReader(), swept: map[string]time.Time{}, sweeps: map[string]*backup.Sweep{}}
	}
	return k.known[uid]
}

// Forget forgets a repository that is gone.
func (k *Pruner) Forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, uid)
}

// run is one look at one repository.
type run struct {
	*Pruner
	*memory
	repo  *v1alpha1.BackupRepository
	store objstore.Store
	now   time.Time
	facts *facts
	// sweepsEnd is until when this run may look for what interrupted backups have left.
	sweepsEnd time.Time

	lineages []inventory.Lineage
	// shown are the backups that have objects of the catalogue, or get them in this run.
	shown map[v1alpha1.FoundBackup]bool
	// Of the backups that no rule keeps, shows are those of an object that was made for what was found. The others get one if there is
	// room: due are those that this run would have removed, later those that it leaves alone.
	shows      map[v1alpha1.FoundBackup]bool
	due, later []v1alpha1.FoundBackup
	// awaited is how many backups of a lineage stay only because they have no object yet that says what they are.
	awaited map[string]int
	result  Result
}

// Run looks the repository through and removes what is to be removed. Mark is kept in the result.
func (k *Pruner) Run(ctx context.Context, repo *v1alpha1.BackupRepository, mark string) Result {
	r := &run{Pruner: k, memory: k.memoryOf(repo.UID), repo: repo, now: k.Now(), sweepsEnd: time.Now().Add(sweepTime)}
	r.running.Lock() // one that was cancelled may be ending still
	defer r.running.Unlock()
	r.result = Result{Began: r.now, Mark: mark, read: map[string]time.Time{}}
	if err := r.do(ctx); err != nil {
		log.FromContext(ctx).V(1).Info("The inventory of a repository failed", "repository", repo.Name, "error", err.Error())
		r.result.Err = err
	}
	return r.result
}

func (r *run) do(ctx context.Context) error {
	var err error
	if r.store, err = r.Open(ctx, r.Client, r.repo); err != nil {
		return err
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	if err := r.lookForManifests(ctx); err != nil {
		return err
	}
	if err := r.unmarkAll(ctx); err != nil {
		return err
	}
	if err := r.catalogue(ctx); err != nil {
		return err
	}
	if err := r.keep(ctx); err != nil {
		return err
	}
	r.memory.going, r.memory.read = r.next(), r.result.read
	if r.result.removed.directly {
		if err := r.look(ctx); err != nil {
			return err
		}
	}
	r.result.describe(r.repo, r.lineages, r.facts)
	all := r.result.all
	r.described.Store(&all)
	kept, err := r.store.Kept(ctx)
	if err != nil { // many a server knows no versions, many a key may not ask: nothing else depends on it
		log.FromContext(ctx).V(1).Info("Can't read how much the bucket keeps of deleted objects", "repository", r.repo.Name, "error", err.Error())
	}
	r.result.Kept = describeKept(kept)
	return nil
}

// catalogue creates the Backup objects before anything is removed, so that whatever has one can be held.
func (r *run) catalogue(ctx context.Context) (err error) {
	entries := r.findable()
	there := r.readable()
	wanted, _ := catalogue.Choose(r.repo, entries, there, r.memory.going)
	r.shown = map[v1alpha1.FoundBackup]bool{}
	for where := range wanted {
		r.shown[where] = true
	}
	r.result.Catalogue, err = catalogue.Sync(ctx, r.Client, r.repo, entries, there, r.memory.going)
	return err
}

// readable are the Backups but for those that were found in a lineage that can't be read: they stay as they are.
func (r *run) readable() []v1alpha1.Backup {
	unknown := map[string]bool{}
	for i := range r.lineages {
		unknown[r.lineages[i].Lineage.Lineage] = !r.lineages[i].Known()
	}
	return slices.DeleteFunc(slices.Clone(r.facts.backups), func(b v1alpha1.Backup) bool {
		return b.Spec.Found != nil && unknown[b.Spec.Found.Lineage]
	})
}

func (r *run) look(ctx context.Context) (err error) {
	if r.lineages, err = r.reader.Read(ctx, r.store); err != nil {
		return err
	}
	if r.facts, err = gather(ctx, r.Live, r.repo, r.lineages); err == nil {
		r.remember()
	}
	return err
}

// remember keeps since when the lineages are known, for this run and the next.
func (r *run) remember() {
	seen, written := map[string]time.Time{}, map[string]bool{}
	for i := range r.lineages {
		name := r.lineages[i].Lineage.Lineage
		written[name] = r.memory.written[name] || recordedWritten(r.repo, name) || r.facts.hasWritten(&r.lineages[i])
		seen[name] = r.now
		for _, at := range []time.Time{r.memory.seen[name], recordedSeen(r.repo, name)} {
			if !at.IsZero() && at.Before(seen[name]) {
				seen[name] = at
			}
		}
	}
	maps.DeleteFunc(r.memory.swept, func(name string, _ time.Time) bool { return seen[name].IsZero() })
	maps.DeleteFunc(r.memory.sweeps, func(name string, _ *backup.Sweep) bool { return seen[name].IsZero() })
	r.memory.seen, r.facts.seen = seen, seen
	r.memory.written, r.facts.written = written, written
}

// recordedSeen is since when a lineage is known, as the status has recorded it.
func recordedSeen(repo *v1alpha1.BackupRepository, lineage string) time.Time {
	for _, l := range repo.Status.Lineages {
		if l.Name == lineage && l.FirstSeen != nil {
			return l.FirstSeen.Time
		}
	}
	return time.Time{}
}

// recordedWritten says whether a lineage was written here, as the status has recorded it.
func recordedWritten(repo *v1alpha1.BackupRepository, lineage string) bool {
	return slices.ContainsFunc(repo.Status.Lineages, func(l v1alpha1.LineageStatus) bool { return l.Name == lineage && (l.WrittenHere || l.Living) })
}

// findable are the backups for which there may be objects.
func (r *run) findable() []catalogue.Entry {
	var entries []catalogue.Entry
	for i := range r.lineages {
		l := &r.lineages[i]
		owner, _ := r.facts.owner(l, r.now)
		for _, b := range l.Backups {
			entries = append(entries, catalogue.Entry{
				Lineage: l.Lineage.Lineage, Backup: b, Lonely: owner.Absent(),
			})
		}
	}
	return entries
}

// announce tells of what was removed.
func (r *run) announce(message string) {
	r.Events.Eventf(r.repo, nil, corev1.EventTypeNormal, v1alpha1.ReasonCleanedUp, "Retention", "%s", message)
}

// waitFor notes in a sentence why something stays for now.
func (r *run) waitFor(format string, args ...any) {
	r.result.waits = append(r.result.waits, fmt.Sprintf(format, args...))
}
