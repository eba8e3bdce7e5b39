package storetest

import (
	"context"
	"iter"
	"runtime"
	"runtime/debug"
	"strings"

	"howdah.dev/howdah/pkg/objstore"
)

// Endless is a store whose lists below a prefix continue for a long time: a bucket that nobody can trust says what it likes.
type Endless struct {
	objstore.Store
	// Prefix of the lists, and the key of one object of them by its number.
	Prefix string
	Key    func(number int) string
	// Most is how many there are, so that a reader without a bound fails in the end.
	Most int
	// Asked is how many were given out.
	Asked int
}

// List never ends.
func (e *Endless) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	if !strings.HasPrefix(prefix, e.Prefix) && !strings.HasPrefix(e.Prefix, prefix) {
		return e.Store.List(ctx, prefix, after)
	}
	return func(yield func(objstore.Info, error) bool) {
		for number := range e.Most {
			e.Asked++
			if !yield(objstore.Info{Key: e.Key(number), Size: 1}, nil) {
				return
			}
		}
	}
}

// Held is what reading leaves in memory at its largest, in bytes: what has been allocated and not collected when it ends.
func Held(read func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // GOGC may let garbage count
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}
