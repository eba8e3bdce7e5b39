package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	// lockSkew is how far the clocks of the bucket and of this machine may be apart; servers refuse requests beyond it.
	lockSkew = 15 * time.Minute
	// lockRequests is how many locks are read or extended at a time.
	lockRequests = 16
	// maxLocks bounds for how many backups a manifest says until when their packs are locked.
	maxLocks = 1 << 16
)

// Locked says until when the object lock of a bucket keeps all that a restore of a backup reads, as far as is known.
type Locked struct {
	// Until: all of it is locked at least until then.
	Until time.Time `json:"until"`
	// Object whose lock ends first.
	Object string `json:"object"`
	// Packs says until when the packs that the manifest names are locked, by the backup that wrote them.
	Packs PackLocks `json:"packs,omitempty"`
}

// PackLock is until when the packs of one backup are locked that a manifest names.
type PackLock struct {
	Backup string    `json:"backup"`
	Until  time.Time `json:"until"`
}

// PackLocks is a list that is checked while it is read.
type PackLocks []PackLock

// UnmarshalJSON reads the list.
func (l *PackLocks) UnmarshalJSON(b []byte) (err error) {
	*l, err = readList(b, maxLocks, func(lock *PackLock) error { return layout.CheckName("backup", lock.Backup) })
	return err
}

// locking extends the locks of what a backup needs, for the time that the bucket gives to new objects.
type locking struct {
	store  objstore.Store
	locker objstore.Locker
	rule   objstore.LockRule
	began  time.Time
	// until is what every lock has to reach, and extended what one gets that doesn't: so an object is locked anew
	// only once in a quarter of the time, however many backups use it.
	until, extended time.Time

	mu     sync.Mutex
	denied error // locks can't be extended
	least  Locked
}

// newLocking asks the bucket for its rule. It is nil where there is none, or where nobody may ask.
func newLocking(ctx context.Context, store objstore.Store, began time.Time) (*locking, error) {
	locker := store.Locks()
	rule, err := locker.LockRule(ctx)
	if errors.Is(err, objstore.ErrUnavailable) || ctx.Err() != nil {
		return nil, err
	}
	if rule.For <= 0 { // also where the answer was another error: the backup can be made without
		return nil, nil
	}
	until := began.Add(rule.For - lockSkew).UTC().Truncate(time.Second)
	return &locking{store: store, locker: locker, rule: rule, began: began, until: until, extended: until.Add(rule.For / 4).Truncate(time.Second)}, nil
}

// lockOf is the lock of an object. Who may not ask knows of none.
func (l *locking) lockOf(ctx context.Context, key string) (objstore.Lock, error) {
	lock, err := l.locker.LockOf(ctx, key)
	if errors.Is(err, objstore.ErrDenied) {
		return objstore.Lock{}, nil
	}
	return lock, err
}

// cover extends the lock of one object where that is too short, and returns until when it is locked.
func (l *locking) cover(ctx context.Context, key string) (time.Time, error) {
	lock, err := l.lockOf(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	if lock.Until.Before(l.until) && l.mayExtend() {
		extended := objstore.Lock{Mode: cmp.Or(lock.Mode, l.rule.Mode), Until: l.extended}
		err := l.locker.Lock(ctx, key, extended)
		switch {
		case errors.Is(err, objstore.ErrDenied):
			l.deny(err)
		case err != nil:
			return time.Time{}, err
		default:
			lock = extended
		}
	}
	l.note(key, lock.Until)
	return lock.Until, nil
}

func (l *locking) mayExtend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied == nil
}

func (l *locking) deny(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denied = err
}

// note keeps the lock that ends first.
func (l *locking) note(key string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.least.Object == "" || until.Before(l.least.Until) {
		l.least.Object, l.least.Until = key, until
	}
}

// coverAll covers objects side by side, and returns until when all of them are locked.
func (l *locking) coverAll(ctx context.Context, keys []string) (time.Time, error) {
	var (
		mu    sync.Mutex
		least time.Time
		first = true
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lockRequests)
	for _, key := range keys {
		group.Go(func() error {
			until, err := l.cover(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if first || until.Before(least) {
				first, least = false, until
			}
			return err
		})
	}
	return least, group.Wait()
}

// requireChain refuses to build on a backup whose packs would soon lie there without a lock that anybody could extend: then a
// full backup is better.
func (l *locking) requireChain(ctx context.Context, parent *Header) error {
	if l == nil {
		return nil
	}
	known := knownLocks(parent)
	for _, group := range packsByBackup(parent) {
		until, err := l.known(ctx, group, known)
		if err != nil {
			return err
		}
		if !until.Before(l.until) {
			continue
		}
		if until, err = l.cover(ctx, group.keys[0]); err != nil {
			return err
		}
		if l.mayExtend() {
			return nil
		}
		if until.Before(l.began.Add(l.rule.For / 2)) {
			return unsuitable("the object lock of backup %s ends at %s, and the credentials may not extend it (s3:PutObjectRetention)",
				group.backup, until.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// packGroup are the packs of one backup that a manifest names.
type packGroup struct {
	backup string
	keys   []string
}

func packsByBackup(header *Header) []packGroup {
	var groups []packGroup
	at := map[string]int{}
	for _, pack := range header.Packs {
		i, found := at[pack.Backup]
		if !found {
			i = len(groups)
			at[pack.Backup], groups = i, append(groups, packGroup{backup: pack.Backup})
		}
		groups[i].keys = append(groups[i].keys, layout.PackKey(header.Lineage, pack.Backup, pack.Name))
	}
	return groups
}

func knownLocks(header *Header) map[string]time.Time {
	known := map[string]time.Time{}
	if header.Locked != nil {
		for _, lock := range header.Locked.Packs {
			known[lock.Backup] = lock.Until
		}
	}
	return known
}

// known is until when a group of packs is locked, by what a manifest says of it. That comes from the bucket: it counts only as far
// as locks reach that a backup extends, and if the bucket says the same of one of the packs. The zero time: nothing is known.
func (l *locking) known(ctx context.Context, group packGroup, known map[string]time.Time) (time.Time, error) {
	until := known[group.backup]
	if until.Before(l.until) || until.After(l.extended.Add(lockSkew)) {
		return time.Time{}, nil
	}
	lock, err := l.lockOf(ctx, group.keys[int(l.began.Unix())%len(group.keys)])
	if err != nil || lock.Until.Before(until) {
		return time.Time{}, err
	}
	return until, nil
}

// coverBackup extends the locks of all that a restore of the backup reads, apart from its manifest, which is locked when it is put.
// Parent is nil for a full backup.
func (l *locking) coverBackup(ctx context.Context, m, parent *Header) (*Locked, error) {
	if l == nil {
		return nil, nil
	}
	known := map[string]time.Time{}
	if parent != nil {
		known = knownLocks(parent)
	}
	known[m.ID] = l.until // put by this run
	var locks PackLocks
	for _, group := range packsByBackup(m) {
		until, err := l.known(ctx, group, known)
		if err == nil && until.IsZero() {
			until, err = l.coverAll(ctx, group.keys)
		}
		if err != nil {
			return nil, err
		}
		l.note(group.keys[0], until)
		locks = append(locks, PackLock{group.backup, until})
	}
	keys, err := l.others(ctx, m)
	if err == nil {
		_, err = l.coverAll(ctx, keys)
	}
	if err != nil {
		return nil, err
	}
	if len(locks) > maxLocks {
		locks = nil // the next backup asks the bucket
	}
	l.note(layout.ManifestKey(m.Lineage, m.ID), l.until)
	return &Locked{Until: l.least.Until.UTC(), Object: l.least.Object, Packs: locks}, nil
}

// others are the keys of what a restore of a backup reads apart from its packs and its manifest, of which the WAL only as far as it is
// older than this run: what is newer is locked for long enough.
func (l *locking) others(ctx context.Context, m *Header) ([]string, error) {
	keys, err := commonObjects(ctx, l.store, m.Lineage)
	if err != nil {
		return nil, err
	}
	last, err := wal.Key(m.Lineage, m.WAL.Last)
	if err != nil {
		return nil, err
	}
	first, err := wal.Key(m.Lineage, m.WAL.First)
	if err != nil {
		return nil, err
	}
	keys = append(keys, first)
	for info, err := range l.store.List(ctx, layout.TimelinePrefix(m.Lineage, m.Timeline), first) {
		if err != nil {
			return nil, err
		}
		if info.Key > last {
			break
		}
		if info.Modified.Before(l.began.Add(lockSkew)) && !strings.Contains(info.Key, ".open.") {
			keys = append(keys, info.Key)
		}
	}
	return keys, nil
}

// maxCommon bounds the objects that all backups of a lineage need.
const maxCommon = 1 << 14

// commonObjects are those without which no backup of a lineage can be read, and the histories of its timelines.
func commonObjects(ctx context.Context, store objstore.Store, lineage string) ([]string, error) {
	var keys []string
	for _, prefix := range []string{layout.MarkerKey, layout.KeysPrefix, layout.LineageKey(lineage), layout.HistoryPrefix(lineage)} {
		for info, err := range store.List(ctx, prefix, "") {
			if err != nil {
				return nil, err
			}
			if prefix == layout.HistoryPrefix(lineage) && !strings.HasSuffix(info.Key, ".history") {
				continue
			}
			if keys = append(keys, info.Key); len(keys) > maxCommon {
				return nil, fmt.Errorf("%w: more than %d data keys and histories of timelines", ErrTooLarge, maxCommon)
			}
		}
	}
	return keys, nil
}

// readLocks says until when all that a restore of a backup reads is locked, by asking for each object. Nil: the bucket has no
// object lock, or doesn't say.
func readLocks(ctx context.Context, store objstore.Store, m *Header, now time.Time) (*Locked, error) {
	l, err := newLocking(ctx, store, now)
	if l == nil || err != nil {
		return nil, err
	}
	if _, err := l.locker.LockOf(ctx, layout.ManifestKey(m.Lineage, m.ID)); errors.Is(err, objstore.ErrDenied) {
		return nil, nil
	}
	keys, err := commonObjects(ctx, store, m.Lineage)
	if err != nil {
		return nil, err
	}
	keys = append(keys, layout.ManifestKey(m.Lineage, m.ID))
	for _, group := range packsByBackup(m) {
		keys = append(keys, group.keys...)
	}
	segments, err := segmentKeys(m)
	if err != nil {
		return nil, err
	}
	l.denied = errOnlyLooking
	_, err = l.coverAll(ctx, slices.Concat(keys, segments))
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil // what is missing is reported
	}
	return &Locked{Until: l.least.Until.UTC(), Object: l.least.Object}, err
}

var errOnlyLooking = errors.New("locks are only read")

func segmentKeys(m *Header) ([]string, error) {
	first, err := postgres.ParseSegment(m.WAL.First, m.WAL.SegmentSize)
	if err != nil {
		return nil, err
	}
	last, err := postgres.ParseSegment(m.WAL.Last, m.WAL.SegmentSize)
	if err != nil {
		return nil, err
	}
	var keys []string
	for segment := first; segment.Compare(last) <= 0; segment = segment.Next() {
		key, err := wal.Key(m.Lineage, segment.Name())
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
