// Package bucketlock keeps those who delete from a lineage apart, wherever they run: controllers of several Kubernetes, and
// howdah-backup, which knows of no Kubernetes. Each deletes only what nobody needs; but what one relies on the other may be deleting.
// A lock is an object in the bucket. It ends by itself, so that nobody has to clear away what a killed process leaves.
package bucketlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

const (
	// Lasts is for how long a lock holds after it was put, by the server's clock.
	Lasts = time.Hour
	// works is for how long its holder may delete, by the holder's own monotonic clock.
	works = 45 * time.Minute
	// releaseTimeout bounds the removal of a lock. One that stays ends by itself.
	releaseTimeout = 20 * time.Second
	// maxContent and maxName bound what is read of a lock, and maxLocks how many: a bucket is not trusted.
	maxContent, maxName, maxLocks = 4 << 10, 200, 1000
)

// ErrHeld is a lineage from which somebody else deletes. It is a *HeldError.
var ErrHeld = errors.New("somebody else deletes from the lineage")

// HeldError says who holds a lock.
type HeldError struct {
	Lineage string
	Holder  string // as it calls itself; empty: the lock can't be read
	Since   time.Time
}

func (e *HeldError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "somebody"
	}
	return fmt.Sprintf("%s deletes from lineage %s since %s; this ends at %s at the latest", holder, e.Lineage,
		e.Since.UTC().Format(time.RFC3339), e.Since.Add(Lasts).UTC().Format(time.RFC3339))
}

// Is says that it is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Holder is who locks.
type Holder struct {
	// ID is part of a key, and of one process only. Whoever locks again under its ID takes over what it could not unlock.
	ID string
	// Name tells a person who it is.
	Name string
}

// Held is a lock that was granted.
type Held struct {
	// Until is when its holder stops deleting, by the holder's own monotonic clock. That is before the lock ends.
	Until time.Time
	// At is when the server received the lock, by the server's clock.
	At time.Time
}

// content is what a lock says.
type content struct {
	Holder string `json:"holder"`
}

// Lock locks deletions from a lineage. Its holder deletes nothing after Held.Until; and what is to be deleted must be decided, or looked at
// again, after this. Of two who lock at once, one at least gets ErrHeld.
func Lock(ctx context.Context, store objstore.Store, lineage string, holder Holder) (held Held, unlock func(), err error) {
	if err := errors.Join(layout.CheckName("lineage", lineage), layout.CheckName("holder", holder.ID)); err != nil {
		return held, nil, err
	}
	body, err := json.Marshal(content{Holder: holder.Name})
	if err != nil {
		return held, nil, err
	}
	key := layout.DeletionKey(lineage, holder.ID)
	held.Until = time.Now().Add(works)
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = store.Delete(ctx, key)
	}
	// First the own lock, then a look for others: whatever the order, one sees the other.
	if err := store.Put(ctx, key, body, objstore.PutOptions{}); err != nil {
		return held, nil, err
	}
	mine, err := store.Stat(ctx, key)
	if err == nil {
		err = others(ctx, store, lineage, mine)
	}
	if err != nil {
		unlock()
		return held, nil, err
	}
	held.At = mine.Modified
	return held, unlock, nil
}

// others looks for locks of others. The own one tells what time it is in the bucket.
func others(ctx context.Context, store objstore.Store, lineage string, mine objstore.Info) error {
	var ended []string
	for info, err := range store.List(ctx, layout.DeletionsPrefix(lineage), "") {
		switch {
		case err != nil:
			return err
		case info.Key == mine.Key:
		case mine.Modified.Sub(info.Modified) < Lasts:
			return &HeldError{Lineage: lineage, Holder: read(ctx, store, info.Key), Since: info.Modified}
		case len(ended) == maxLocks:
			return fmt.Errorf("%w: there are more than %d deletion locks of lineage %s", objstore.ErrTooLarge, maxLocks, lineage)
		default:
			ended = append(ended, info.Key)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	return store.Delete(ctx, ended...)
}

// read is what the holder of a lock calls itself. Whoever can write to the bucket can write anything there.
func read(ctx context.Context, store objstore.Store, key string) string {
	said := content{}
	body, err := store.Get(ctx, key, maxContent)
	if err != nil || json.Unmarshal(body, &said) != nil || said.Holder == "" {
		return path.Base(key)
	}
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, said.Holder)
	return printable[:min(len(printable), maxName)]
}
