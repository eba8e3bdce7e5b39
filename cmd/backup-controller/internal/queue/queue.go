// Package queue bounds how many backups run at a time: of all, on a node, and into a repository. Those that wait begin in order.
//
// It is kept in memory: whoever asks is answered exactly, whatever a cache doesn't show yet. A new process is told once what runs
// (Recover), and each Backup tells it again whenever it is looked at.
package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// AskAgain is how long a Backup that waits may take until it asks again. Most are woken before.
const AskAgain = 2 * time.Minute

// forgetAfter is how long the queue remembers a Backup that it hears nothing of, such as one whose object was deleted by force. A running
// one is looked at every 20 seconds.
const forgetAfter = 3 * AskAgain

// forgetEvery is how often all are looked through for such.
const forgetEvery = 10 * time.Second

// Limits of backups that run at a time; 0 means unlimited.
type Limits struct {
	All, Node int
}

// Entry is a Backup whose Job runs or could begin.
type Entry struct {
	UID     types.UID
	Backup  types.NamespacedName
	Created time.Time
	// Requested by the suite, such as before an Upgrade, which waits for it. It goes before others.
	Requested bool
	// Node on which it runs.
	Node string
	// Repository it is stored in, and how many may be stored there at a time; 0 means unlimited.
	Repository      types.NamespacedName
	RepositoryLimit int

	seen time.Time
}

// Queue of one process.
type Queue struct {
	limits Limits
	now    func() time.Time

	mu        sync.Mutex
	recovered bool
	running   map[types.UID]Entry
	waiting   map[types.UID]Entry
	// order of those that wait.
	order []types.UID
	// forgot is when all were last looked through for those of which nothing is heard.
	forgot time.Time
	wake   func(types.NamespacedName)
}

// New makes an empty one.
func New(limits Limits, now func() time.Time) *Queue {
	return &Queue{limits: limits, now: now, running: map[types.UID]Entry{}, waiting: map[types.UID]Entry{}, wake: func(types.NamespacedName) {}}
}

// Source wakes the Backups whose turn has come.
func (q *Queue) Source() source.Source {
	return source.Func(func(_ context.Context, requests workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.WakeBy(func(backup types.NamespacedName) { requests.Add(reconcile.Request{NamespacedName: backup}) })
		return nil
	})
}

// WakeBy calls wake with each Backup whose turn has come. It must not block.
func (q *Queue) WakeBy(wake func(types.NamespacedName)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake = wake
}

// Recover tells the queue of a new process what may run already. found is called once; until it succeeds, nothing begins.
func (q *Queue) Recover(found func() ([]Entry, error)) error {
	q.mu.Lock()
	done := q.recovered
	q.mu.Unlock()
	if done {
		return nil
	}
	entries, err := found()
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, entry := range entries {
		if _, known := q.running[entry.UID]; !known && !q.recovered {
			q.running[entry.UID] = q.see(entry)
		}
	}
	q.recovered = true
	return nil
}

// Running notes a Backup whose Job runs, whatever the limits are.
func (q *Queue) Running(entry Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running[entry.UID] = q.see(entry)
	q.waitNoMore(entry.UID)
}

// Begin lets a Backup begin, or says what it waits for in a sentence. It counts as running from then on.
func (q *Queue) Begin(entry Entry) (wait string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget()
	if _, runs := q.running[entry.UID]; !runs {
		q.await(entry)
		if wait = q.waitsFor(entry.UID); wait != "" {
			return wait
		}
	}
	q.running[entry.UID] = q.see(entry)
	q.waitNoMore(entry.UID)
	return ""
}

// Leave takes out a Backup that has ended or can't begin, and wakes those whose turn has come.
func (q *Queue) Leave(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ran := q.running[uid]
	_, waited := q.waiting[uid]
	if !ran && !waited {
		return
	}
	delete(q.running, uid)
	q.waitNoMore(uid)
	q.forget()
	seats := q.seats()
	for _, next := range q.order {
		if q.allTaken(seats) {
			return
		}
		if entry := q.waiting[next]; q.full(seats, entry) == "" {
			seats.take(entry)
			q.wake(entry.Backup)
		}
	}
}

// Counts are how many run and how many wait.
func (q *Queue) Counts() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.running), len(q.waiting)
}

func (q *Queue) see(entry Entry) Entry {
	entry.seen = q.now()
	return entry
}

func (q *Queue) forget() {
	now := q.now()
	if now.Sub(q.forgot) < forgetEvery {
		return
	}
	q.forgot = now
	since := now.Add(-forgetAfter)
	for uid, entry := range q.running {
		if entry.seen.Before(since) {
			delete(q.running, uid)
		}
	}
	for uid, entry := range q.waiting {
		if entry.seen.Before(since) {
			q.waitNoMore(uid)
		}
	}
}

// await puts a Backup among those that wait.
func (q *Queue) await(entry Entry) {
	before, known := q.waiting[entry.UID]
	if known && (before.Requested != entry.Requested || !before.Created.Equal(entry.Created)) {
		q.waitNoMore(entry.UID)
		known = false
	}
	q.waiting[entry.UID] = q.see(entry)
	if !known {
		q.order = slices.Insert(q.order, q.place(entry.UID), entry.UID)
	}
}

// waitNoMore takes a Backup out of those that wait.
func (q *Queue) waitNoMore(uid types.UID) {
	if _, waits := q.waiting[uid]; !waits {
		return
	}
	place := q.place(uid)
	q.order = slices.Delete(q.order, place, place+1)
	delete(q.waiting, uid)
}

// place of a Backup that waits among those that do, which is how many are ahead.
func (q *Queue) place(uid types.UID) int {
	place, _ := slices.BinarySearchFunc(q.order, uid, q.inTurn)
	return place
}

func (q *Queue) inTurn(one, other types.UID) int {
	a, b := q.waiting[one], q.waiting[other]
	if a.Requested != b.Requested {
		if a.Requested {
			return -1
		}
		return 1
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
}

// waitsFor says what one that waits has to wait for; empty if it may begin. What is before it begins first, if it can: what it will take is
// taken.
func (q *Queue) waitsFor(uid types.UID) string {
	seats, ahead := q.seats(), q.place(uid)
	for _, before := range q.order[:ahead] {
		if q.allTaken(seats) {
			break // none of the others can begin
		}
		if entry := q.waiting[before]; q.full(seats, entry) == "" {
			seats.take(entry)
		}
	}
	full := q.full(seats, q.waiting[uid])
	if full != "" && ahead > 0 {
		return fmt.Sprintf("%s Backups ahead in the queue: %d.", full, ahead)
	}
	return full
}

// seats are those that are taken.
type seats struct {
	all          int
	nodes        map[string]int
	repositories map[types.NamespacedName]int
}

func (q *Queue) seats() *seats {
	taken := &seats{nodes: map[string]int{}, repositories: map[types.NamespacedName]int{}}
	for _, entry := range q.running {
		taken.take(entry)
	}
	return taken
}

func (s *seats) take(entry Entry) {
	s.all++
	s.nodes[entry.Node]++
	s.repositories[entry.Repository]++
}

// allTaken says that no Backup can begin, whatever it needs.
func (q *Queue) allTaken(taken *seats) bool { return q.limits.All > 0 && taken.all >= q.limits.All }

// full says which limit keeps a Backup from running; empty: none.
func (q *Queue) full(taken *seats, entry Entry) string {
	switch {
	case q.allTaken(taken):
		return fmt.Sprintf("The limit of concurrent backups is reached: %d in the suite (backups.maxConcurrent of the chart's values).", q.limits.All)
	case q.limits.Node > 0 && taken.nodes[entry.Node] >= q.limits.Node:
		return fmt.Sprintf("The limit of concurrent backups is reached: %d on node %s (backups.maxConcurrentPerNode of the chart's values).", q.limits.Node, entry.Node)
	case entry.RepositoryLimit > 0 && taken.repositories[entry.Repository] >= entry.RepositoryLimit:
		return fmt.Sprintf("The limit of concurrent backups is reached: %d in BackupRepository %s (its spec.maxConcurrentBackups).", entry.RepositoryLimit, entry.Repository.Name)
	}
	return ""
}
