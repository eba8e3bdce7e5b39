//go:build postgres

package restorejob

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/sealed"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestWhateverIsWrongIsNamedAndNothingIsLeft restores from a repository with one thing wrong, onto an empty volume and beside
// the previous data.
func TestWhateverIsWrongIsNamedAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 140)
		b.archive()
		hole := b.last
		b.rows(141, 160)
		b.archive()
		for name, test := range subset.Of(4, map[string]struct {
			harm   func(*bed, *mem.Store) objstore.Store
			change func(*agentapi.RestoreJob)
			reason string
			parts  []string
		}{
			"a pack is gone":              {gone(b.anyPack()), nil, ReasonDataCorrupt, []string{b.anyPack(), "needed for file"}},
			"a pack is cut off":           {cutOff(b.anyPack()), nil, ReasonDataCorrupt, []string{b.anyPack(), "needed for file"}},
			"a pack is empty":             {empty(b.anyPack()), nil, ReasonDataCorrupt, []string{b.anyPack(), "needed for file"}},
			"the manifest is cut off":     {cutOff(b.manifestKey()), nil, ReasonDataCorrupt, []string{b.manifestKey()}},
			"the manifest is empty":       {empty(b.manifestKey()), nil, ReasonDataCorrupt, []string{b.manifestKey()}},
			"the manifest is gone":        {gone(b.manifestKey()), nil, ReasonNoBackup, []string{"backup first was deleted from the repository"}},
			"a segment is cut off":        {cutOff(b.segment(hole)), nil, ReasonDataCorrupt, []string{b.segment(hole)}},
			"a segment is empty":          {empty(b.segment(hole)), nil, ReasonDataCorrupt, []string{b.segment(hole)}},
			"there is a hole in the WAL":  {gone(b.segment(hole)), nil, ReasonUnreachable, []string{hole, b.lineage, "restore another backup"}},
			"the first segment is gone":   {gone(b.segment(b.manifest.WAL.First)), nil, ReasonUnreachable, []string{b.manifest.WAL.First, "restore another backup"}},
			"the key is another":          {sealWith("01", "k1", "02"), nil, "WrongKey", []string{"k1"}},
			"the key is not there":        {sealWith("01", "k2", "02"), nil, "KeyNotFound", []string{"k1"}},
			"there are no such programs":  {nil, func(job *agentapi.RestoreJob) { job.MajorVersion = 99 }, ReasonWrongPrograms, []string{"99"}},
			"the history file is corrupt": {damagedHistory, func(job *agentapi.RestoreJob) { job.Timeline = 2 }, ReasonDataCorrupt, []string{"00000002.history"}},
		}) {
			for _, inPlace := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, in place %t", name, inPlace), func(t *testing.T) {
					b, task := b.at(t), b.task(agentapi.RestoreTarget{})
					store := objstore.Store(b.store)
					if test.harm != nil {
						store = test.harm(b, b.copyStore())
					}
					if test.change != nil {
						test.change(&task)
					}
					b.failsWith(store, task, inPlace, test.reason, test.parts)
				})
			}
		}
	})
}

func (b *bed) segment(name string) string { return layout.TimelinePrefix(b.lineage, 1) + name }

func (b *bed) manifestKey() string { return layout.ManifestKey(b.lineage, "first") }

func gone(key string) func(*bed, *mem.Store) objstore.Store {
	return func(b *bed, store *mem.Store) objstore.Store {
		b.must(store.Delete(b.t.Context(), key))
		return store
	}
}

func cutOff(key string) func(*bed, *mem.Store) objstore.Store {
	return shortened(key, func(size int) int { return size * 2 / 3 })
}

func empty(key string) func(*bed, *mem.Store) objstore.Store {
	return shortened(key, func(int) int { return 0 })
}

func shortened(key string, to func(int) int) func(*bed, *mem.Store) objstore.Store {
	return func(b *bed, store *mem.Store) objstore.Store {
		whole, err := store.Get(b.t.Context(), key, 1<<30)
		b.must(err)
		b.must(store.Put(b.t.Context(), key, whole[:to(len(whole))], objstore.PutOptions{}))
		return store
	}
}

func damagedHistory(b *bed, store *mem.Store) objstore.Store {
	key := layout.HistoryPrefix(b.lineage) + "00000002.history"
	b.must(store.Put(b.t.Context(), key, []byte("1\t0/1000000\tx\n"), objstore.PutOptions{}))
	return store
}

// sealWith makes a copy that is encrypted with the key k1, and read with another one.
func sealWith(with, name, readWith string) func(*bed, *mem.Store) objstore.Store {
	return func(b *bed, plain *mem.Store) objstore.Store {
		inner := mem.New()
		seal := b.sealed(inner, "k1", with)
		for info, err := range plain.List(b.t.Context(), "", "") {
			b.must(err)
			if info.Key == layout.MarkerKey { // it has one of its own
				continue
			}
			body, err := plain.Get(b.t.Context(), info.Key, 1<<30)
			b.must(err)
			b.must(seal.Put(b.t.Context(), info.Key, body, objstore.PutOptions{}))
		}
		return b.sealed(inner, name, readWith)
	}
}

func (b *bed) sealed(inner objstore.Store, name, key string) objstore.Store {
	b.t.Helper()
	keys, err := sealed.ParseKeys(map[string][]byte{name: []byte(strings.Repeat(key, 32))}, "")
	b.must(err)
	return sealed.New(inner, sealed.Fixed(keys), sealed.Options{})
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// failsWith expects a failure with a reason and words, and the volume as it was: empty, or with the previous data.
func (b *bed) failsWith(store objstore.Store, task agentapi.RestoreJob, inPlace bool, reason string, parts []string) {
	b.t.Helper()
	volume := generation.Volume(pgtest.Dir(b.t))
	if inPlace { // of another database, so that all is fetched
		volume, task.InPlace = b.volumeOf("4711"), true
	}
	b.failsOn(volume, store, task, reason, parts)
}

func (b *bed) failsOn(volume generation.Volume, store objstore.Store, task agentapi.RestoreJob, reason string, parts []string) {
	b.t.Helper()
	before := b.filesOf(volume)
	o := b.restoreOn(volume, store, task)
	failure := &job.Failure{}
	if !errors.As(o.err, &failure) || failure.Reason != reason {
		b.t.Fatalf("%#v: %v; want %s", failure, o.err, reason)
	}
	for _, part := range parts {
		if !strings.Contains(o.err.Error(), part) {
			b.t.Errorf("it doesn't say %q: %v", part, o.err)
		}
	}
	if after := b.filesOf(volume); after != before {
		b.t.Errorf("the volume has\n%s\nand had\n%s", after, before)
	}
	if id, err := volume.Current(); task.InPlace && (err != nil || id != "g0" || !volume.Whole("g0")) {
		b.t.Errorf("current is %q, %v", id, err)
	}
}

// filesOf are the files on a volume, with their sizes and times.
func (b *bed) filesOf(volume generation.Volume) string {
	b.t.Helper()
	var all strings.Builder
	root := filepath.Join(string(volume), "generations")
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != root {
			fmt.Fprintln(&all, path, info.Mode(), info.Size())
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return all.String()
}

// TestAFullVolumeIsNamed when it is seen at once, and when it fills up during replay, which only PostgreSQL tells.
func TestAFullVolumeIsNamed(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	small := smallFileSystem(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		for range 150 { // segments of 1 MiB, more than is left beside the backup
			b.exec("SELECT pg_logical_emit_message(false, 'x', repeat('x', 700000))")
		}
		b.rows(121, 130)
		b.archive()
		for name, test := range map[string]struct {
			left    int64
			inPlace bool
			parts   []string
		}{
			"before anything is written": {32 << 20, false, []string{"MiB free", "make another Restore with a larger spec.destination.newCluster.storage.size"}},
			"before it, in place":        {32 << 20, true, []string{"MiB free", "raise spec.storage.size of the PostgresCluster"}},
			"while WAL is replayed":      {b.manifest.Totals.LogicalBytes + spareBytes + 1<<20, false, []string{"the volume is full", "newCluster.storage.size"}},
			"while it is, and in place":  {b.manifest.Totals.LogicalBytes + spareBytes + 1<<20, true, []string{"the volume is full", "raise spec.storage.size of the PostgresCluster"}},
		} {
			t.Run(name, func(t *testing.T) {
				b, task := b.at(t), b.task(agentapi.RestoreTarget{})
				root, err := os.MkdirTemp(small, "volume")
				b.must(err)
				t.Cleanup(func() { b.must(os.RemoveAll(root)) })
				volume := generation.Volume(root)
				if task.InPlace = test.inPlace; test.inPlace {
					b.fillVolume(volume, "4711")
				}
				b.leave(volume, test.left)
				b.failsOn(volume, b.store, task, ReasonNoSpace, test.parts)
			})
		}
	})
}

// leave fills a volume up until so much is left.
func (b *bed) leave(volume generation.Volume, left int64) {
	b.t.Helper()
	_, free, err := volume.Space()
	b.must(err)
	if free < left {
		b.t.Fatalf("the small file system has %d bytes free, and the test wants %d", free, left)
	}
	chunk := make([]byte, 1<<20)
	f, err := os.CreateTemp(string(volume), "ballast")
	b.must(err)
	for ; free > left; free -= int64(len(chunk)) {
		_, err = f.Write(chunk)
		b.must(err)
	}
	b.must(f.Close())
}
