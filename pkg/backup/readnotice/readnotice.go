// Package readnotice announces in a bucket that one of its backups is being read, so that nobody deletes it meanwhile: by Restores of other namespaces
// and other Kubernetes clusters, and by howdah-backup. A notice expires, so that what a killed process leaves needs no cleaning. It is a request, not a
// lock: readers wait for nobody, and one without the right to write to the bucket reads without a notice.
package readnotice

import (
	"cmp"
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
	// Lasts is how long a notice is valid after it was last renewed, by the server's clock.
	Lasts = time.Hour
	// Longest is for how long those who delete wait for readers. Whoever can write to the bucket could keep them waiting forever otherwise.
	Longest = 24 * time.Hour
	// renewal is how often a reader renews its notice.
	renewal = 15 * time.Minute
	// putTimeout bounds each write: a reader doesn't wait for a store that it can do without.
	putTimeout = 20 * time.Second
	// maxContent and maxText bound what is read of others, maxRead of how many, and maxReaders how many are listed: a bucket is not trusted.
	maxContent, maxText, maxRead, maxReaders = 4 << 10, 200, 50, 1000
)

// Reader is who reads.
type Reader struct {
	// ID is part of a key, and of one process only.
	ID string `json:"-"`
	// Name tells a person who it is.
	Name string `json:"reader"`
	// Backup that is read; empty: anything of the lineage may be.
	Backup string `json:"backup,omitempty"`
	// Until is when the notice expires unless it is renewed.
	Until time.Time `json:"-"`
}

// Reads says whether a backup may be what is read.
func (r Reader) Reads(id string) bool { return r.Backup == "" || r.Backup == id }

func (r Reader) String() string {
	what := cmp.Or(r.Backup, "it")
	return fmt.Sprintf("%s is reading %s, according to its notice in the bucket, which expires at %s unless it is renewed", r.Name, what, r.Until.UTC().Format(time.RFC3339))
}

// Announce writes a notice that a lineage is being read, and renews it until stop is called. If the first write fails, tell is told, and nothing
// else happens.
func Announce(ctx context.Context, store objstore.Store, lineage string, reader Reader, tell func(error)) (stop func()) {
	if err := errors.Join(layout.CheckName("lineage", lineage), layout.CheckName("reader", reader.ID)); err != nil {
		tell(err)
		return func() {}
	}
	key := layout.ReaderKey(lineage, reader.ID)
	body, err := json.Marshal(reader)
	if err == nil {
		err = put(ctx, store, key, body)
	}
	if err != nil {
		tell(err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for again := time.NewTicker(renewal); ; {
			select {
			case <-ctx.Done():
				again.Stop()
				return
			case <-again.C:
				_ = put(ctx, store, key, body) // the next renewal comes before the notice expires
			}
		}
	}()
	return func() {
		cancel()
		<-done // else what it puts last would stay
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTimeout)
		defer cancel()
		_ = store.Delete(ctx, key)
	}
}

func put(ctx context.Context, store objstore.Store, key string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	return store.Put(ctx, key, body, objstore.PutOptions{})
}

// List is who reads a lineage at a time by the server's clock. Notices that have expired are deleted.
func List(ctx context.Context, store objstore.Store, lineage string, now time.Time) ([]Reader, error) {
	var found []Reader
	var ended []string
	for info, err := range store.List(ctx, layout.ReadersPrefix(lineage), "") {
		if err != nil {
			return nil, err
		}
		until := info.Modified.Add(Lasts)
		switch {
		case len(found)+len(ended) == maxReaders: // who wrote so many is no reader, and there may be one behind them
			found = append(found, Reader{ID: path.Base(info.Key), Name: "Somebody", Until: now.Add(Lasts)})
		case !now.Before(until):
			ended = append(ended, info.Key)
		case len(found) < maxRead:
			reader := read(ctx, store, info.Key)
			reader.Until = until
			found = append(found, reader)
		default:
			found = append(found, Reader{ID: path.Base(info.Key), Name: "Somebody", Until: until})
		}
		if len(found)+len(ended) > maxReaders {
			break
		}
	}
	if len(ended) == 0 {
		return found, nil
	}
	return found, store.Delete(ctx, ended...)
}

// read is what a reader says of itself. Whoever can write to the bucket can write anything there; what can't be read may read anything.
func read(ctx context.Context, store objstore.Store, key string) Reader {
	said := Reader{}
	body, err := store.Get(ctx, key, maxContent)
	if err != nil || json.Unmarshal(body, &said) != nil || said.Backup != "" && layout.CheckName("backup", said.Backup) != nil {
		said = Reader{}
	}
	said.ID = path.Base(key)
	said.Name = printable(cmp.Or(said.Name, said.ID))
	return said
}

func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxText)]
}
