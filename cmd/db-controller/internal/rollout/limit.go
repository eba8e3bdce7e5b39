package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// patience is how long a cluster keeps others waiting. One that takes longer is in trouble, which its conditions say, and continues beside
// the others.
const patience = 15 * time.Minute

// forgetAfter is how long nothing may be heard of a cluster that waits. Each is looked at every quarter of a minute. forgetEvery is how often
// all are looked through for such.
const forgetAfter, forgetEvery = 5 * time.Minute, 10 * time.Second

// Limit bounds how many clusters roll out a change at a time. Those that wait begin in order.
//
// It is kept in memory, so that it is exact whatever a cache doesn't show yet. What has begun is recorded in the status of each cluster, of
// which a new process is told once (Recover).
type Limit struct {
	most int
	now  func() time.Time

	mu        sync.Mutex
	recovered bool
	rolling   map[types.NamespacedName]time.Time // since when
	waiting   map[types.NamespacedName]turn
	// order of those that wait.
	order []types.NamespacedName
	// forgot is when all were last looked through for those of which nothing is heard.
	forgot time.Time
	wake   func(types.NamespacedName)
}

type turn struct{ since, seen time.Time }

// NewLimit of so many clusters; 0 means unlimited. wake is called with a cluster whose turn may have come.
func NewLimit(most int, now func() time.Time) *Limit {
	return &Limit{
		most: most, now: now, wake: func(types.NamespacedName) {},
		rolling: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]turn{},
	}
}

// WakeBy calls wake with each cluster whose turn may have come. It must not block.
func (l *Limit) WakeBy(wake func(types.NamespacedName)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = wake
}

// Recover tells a new process which clusters have begun, and when. found is called once; until it succeeds, none begins.
func (l *Limit) Recover(found func() (map[types.NamespacedName]time.Time, error)) error {
	l.mu.Lock()
	done := l.recovered
	l.mu.Unlock()
	if done {
		return nil
	}
	begun, err := found()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for cluster, since := range begun {
		if _, known := l.rolling[cluster]; !known && !l.recovered {
			l.rolling[cluster] = since
		}
	}
	l.recovered = true
	return nil
}

// Rolling notes a cluster that has begun, whatever the limit is.
func (l *Limit) Rolling(cluster types.NamespacedName, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolling[cluster] = since
	l.leave(cluster)
}

// Begin lets a cluster begin, or says in a sentence what it waits for. It counts from then on.
func (l *Limit) Begin(cluster types.NamespacedName) (wait string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if _, rolls := l.rolling[cluster]; !rolls {
		l.await(cluster, now)
		free, ahead := l.free(now), l.place(cluster)
		switch {
		case free <= 0:
			return fmt.Sprintf("It waits, because the limit of clusters with a rollout in progress is reached (rollouts.maxConcurrent of the chart's values: %d). Clusters ahead in the queue: %d.", l.most, ahead)
		case free <= ahead: // the others were woken before
			return fmt.Sprintf("It waits for its turn among the clusters to which changes are rolled out. Clusters ahead in the queue: %d.", ahead)
		}
	}
	l.rolling[cluster] = now
	l.leave(cluster)
	return ""
}

// Done notes that a cluster has nothing to roll out, or that it no longer exists, and wakes those whose turn comes.
func (l *Limit) Done(cluster types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, rolled := l.rolling[cluster]
	_, waited := l.waiting[cluster]
	delete(l.rolling, cluster)
	l.leave(cluster)
	if !rolled && !waited {
		return
	}
	for _, name := range l.order[:min(len(l.order), max(0, l.free(l.now())))] {
		l.wake(name)
	}
}

// Counts of clusters that roll out a change, and of those that wait.
func (l *Limit) Counts() (rolling, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rolling), len(l.waiting)
}

func (l *Limit) await(cluster types.NamespacedName, now time.Time) {
	l.forget(now)
	mine, known := l.waiting[cluster]
	mine.seen = now
	if !known {
		mine.since = now
	}
	l.waiting[cluster] = mine
	if !known {
		l.order = slices.Insert(l.order, l.place(cluster), cluster)
	}
}

// forget those of which nothing is heard.
func (l *Limit) forget(now time.Time) {
	if now.Sub(l.forgot) < forgetEvery {
		return
	}
	l.forgot = now
	for name, other := range l.waiting {
		if now.Sub(other.seen) > forgetAfter {
			l.leave(name)
		}
	}
}

// leave takes a cluster out of those that wait.
func (l *Limit) leave(cluster types.NamespacedName) {
	if _, waits := l.waiting[cluster]; !waits {
		return
	}
	place := l.place(cluster)
	l.order = slices.Delete(l.order, place, place+1)
	delete(l.waiting, cluster)
}

// free is how many may begin.
func (l *Limit) free(now time.Time) int {
	if l.most <= 0 {
		return len(l.waiting)
	}
	free := l.most
	for _, since := range l.rolling {
		if now.Sub(since) <= patience {
			free--
		}
	}
	return free
}

// place of a cluster that waits among those that do, which is how many are ahead.
func (l *Limit) place(cluster types.NamespacedName) int {
	place, _ := slices.BinarySearchFunc(l.order, cluster, l.inTurn)
	return place
}

func (l *Limit) inTurn(a, b types.NamespacedName) int {
	return cmp.Or(l.waiting[a].since.Compare(l.waiting[b].since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
