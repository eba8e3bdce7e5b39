package backup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// ReadManifest reads and checks a whole manifest. objstore.ErrNotFound: there is no such backup.
func ReadManifest(ctx context.Context, store objstore.Store, lineage, id string) (*Manifest, error) {
	if err := checkNames(lineage, id); err != nil {
		return nil, err
	}
	key := layout.ManifestKey(lineage, id)
	object, err := store.Get(ctx, key, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(object)
	if err != nil {
		return nil, unreadable(key, err)
	}
	if m.Lineage != lineage || m.ID != id {
		return nil, &CorruptError{Object: key, Detail: "it is the manifest of " + m.Lineage + "/" + m.ID}
	}
	return m, nil
}

func checkNames(lineage, id string) error {
	return errors.Join(layout.CheckName("lineage", lineage), layout.CheckName("backup", id))
}

// unreadable tells a manifest of a later version from a damaged one.
func unreadable(key string, err error) error {
	if errors.Is(err, envelope.ErrUnknown) || errors.Is(err, ErrFormat) {
		return fmt.Errorf("%w: %s: %w", ErrFormat, key, err)
	}
	return &CorruptError{Object: key, Detail: err.Error()}
}

// ReadHead reads and checks the head of a manifest, by one small ranged read.
func ReadHead(ctx context.Context, store objstore.Store, lineage, id string) (*Head, error) {
	if err := checkNames(lineage, id); err != nil {
		return nil, err
	}
	key := layout.ManifestKey(lineage, id)
	for size := headGuess; ; {
		b := make([]byte, size)
		n, err := store.ReadAt(ctx, key, b, 0)
		if err != nil && !errors.Is(err, objstore.ErrTorn) {
			return nil, err
		}
		head, _, _, err := openHead(b[:n])
		var short *envelope.ShortError
		if errors.As(err, &short) && n == size {
			size = short.Need
			continue
		}
		if err != nil {
			return nil, unreadable(key, err)
		}
		return head, nil
	}
}

// headGuess is enough for the head of most backups.
const headGuess = 64 << 10

// Entry is one backup in a bucket.
type Entry struct {
	Lineage string
	ID      string
	// Committed is when the store took the manifest.
	Committed    time.Time
	ManifestSize int64 // bytes
	Head         *Head // nil if Err is set
	Err          error // why the manifest can't be read; a *CorruptError if it is damaged
}

// maxEntries bounds what a list takes: a bucket is not trusted, and may claim to have any number of backups.
const maxEntries = 1 << 17

// List finds all backups in a store, or those of one lineage if it isn't empty, in the order of
// lineage and id. A manifest that can't be read is an Entry with Err; only a list that can't be made
// is an error.
func List(ctx context.Context, store objstore.Store, lineage string) ([]Entry, error) {
	lineages := []string{lineage}
	if lineage == "" {
		all, err := layout.Lineages(ctx, store)
		if err != nil {
			return nil, err
		}
		lineages = all
	}
	var entries []Entry
	for _, name := range lineages {
		for info, err := range store.List(ctx, layout.BackupsPrefix(name), "") {
			if err != nil {
				return nil, err
			}
			id := path.Base(path.Dir(info.Key))
			if info.Key != layout.ManifestKey(name, id) || checkNames(name, id) != nil {
				continue
			}
			if len(entries) == maxEntries {
				return nil, fmt.Errorf("%w: there are more than %d backups, which is more than is read", ErrTooLarge, maxEntries)
			}
			entries = append(entries, Entry{Lineage: name, ID: id, Committed: info.Modified, ManifestSize: info.Size})
		}
	}
	return entries, readHeads(ctx, store, entries)
}

// headReaders is how many heads are read at a time.
const headReaders = 8

func readHeads(ctx context.Context, store objstore.Store, entries []Entry) error {
	group := errgroup.Group{}
	group.SetLimit(headReaders)
	for i := range entries {
		group.Go(func() error {
			e := &entries[i]
			e.Head, e.Err = ReadHead(ctx, store, e.Lineage, e.ID)
			return ctx.Err()
		})
	}
	return group.Wait()
}

// Delete removes a backup: first its manifest, then the packs that it pointed at and no other manifest of the lineage
// does. It may be repeated after a crash or an error; a backup that isn't there is no error. Packs of other backups that
// a crash leaves behind are orphans, which SweepOrphans finds. It returns the bytes that were freed this time.
//
// An incremental backup may be written meanwhile: it has claimed what it may point at. The writer of this one must have
// ended; what it had sent may arrive meanwhile, and goes, too.
func Delete(ctx context.Context, store objstore.Store, lineage, id string) (int64, error) {
	if err := checkNames(lineage, id); err != nil {
		return 0, err
	}
	owners, err := packOwners(ctx, store, lineage, id)
	if err != nil {
		return 0, err
	}
	if err := store.Delete(ctx, layout.ManifestKey(lineage, id)); err != nil {
		return 0, err
	}
	if err := dropClaims(ctx, store, lineage, id, time.Time{}); err != nil {
		return 0, err
	}
	used, err := usedBy(ctx, store, lineage)
	if err != nil {
		return 0, err
	}
	freed := int64(0)
	for _, owner := range owners {
		n, err := removePacks(ctx, store, lineage, owner, used)
		freed += n
		if err != nil {
			return freed, err
		}
	}
	return freed, store.Delete(ctx, layout.ManifestKey(lineage, id))
}

// packOwners are the backups whose packs a backup points at, and itself. Of one that can't be read only itself is known.
func packOwners(ctx context.Context, store objstore.Store, lineage, id string) ([]string, error) {
	owners := []string{id}
	head, err := ReadHead(ctx, store, lineage, id)
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
		return owners, nil
	case err != nil:
		return nil, err
	}
	for _, pack := range head.Packs {
		if !slices.Contains(owners, pack.Backup) && layout.CheckName("backup", pack.Backup) == nil {
			owners = append(owners, pack.Backup)
		}
	}
	return owners, nil
}

// usedPacks are the packs that manifests point at, by "<backup>/<name>".
type usedPacks map[string]bool

func (u usedPacks) add(head *Head) {
	for _, pack := range head.Packs {
		u[pack.Backup+"/"+pack.Name] = true
	}
}

// usedBy collects what all manifests of a lineage point at. One that can't be read could point at
// anything: then nothing may be removed.
func usedBy(ctx context.Context, store objstore.Store, lineage string) (usedPacks, error) {
	used := usedPacks{}
	// Claims before manifests: who gives one up has put the other. And once more, for claims made on a backup that was
	// removed between the two.
	if err := used.addClaims(ctx, store, lineage); err != nil {
		return nil, err
	}
	entries, err := List(ctx, store, lineage)
	if err != nil {
		return nil, err
	}
	if err := used.addClaims(ctx, store, lineage); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if errors.Is(e.Err, objstore.ErrNotFound) {
			continue // removed meanwhile
		}
		if e.Err != nil {
			return nil, fmt.Errorf("no pack may be removed while backup %s can't be read: %w", e.ID, e.Err)
		}
		used.add(e.Head)
	}
	return used, nil
}

// removePacks removes the packs that a backup wrote and nobody uses. It returns their bytes.
func removePacks(ctx context.Context, store objstore.Store, lineage, id string, used usedPacks) (int64, error) {
	return removeOldPacks(ctx, store, lineage, id, used, time.Time{})
}

// removeOldPacks is removePacks for those that were put before a time, if it isn't zero.
func removeOldPacks(ctx context.Context, store objstore.Store, lineage, id string, used usedPacks, before time.Time) (int64, error) {
	var keys []string
	freed := int64(0)
	for info, err := range store.List(ctx, layout.BackupPacksPrefix(lineage, id), "") {
		if err != nil {
			return 0, err
		}
		if used[id+"/"+path.Base(info.Key)] || !before.IsZero() && !info.Modified.Before(before) {
			continue
		}
		keys = append(keys, info.Key)
		freed += info.Size
	}
	if len(keys) == 0 {
		return 0, nil
	}
	return freed, store.Delete(ctx, keys...)
}

// SweepOrphans removes the packs that no manifest points at and that were put before a time: what writers and deleters
// that were killed have left. It returns the ids whose packs it removed, and the bytes of them.
//
// As with Delete, nobody may be writing a backup of the lineage meanwhile.
func SweepOrphans(ctx context.Context, store objstore.Store, lineage string, before time.Time) ([]string, int64, error) {
	if err := layout.CheckName("lineage", lineage); err != nil {
		return nil, 0, err
	}
	if err := dropClaims(ctx, store, lineage, "", before); err != nil {
		return nil, 0, err
	}
	used, err := usedBy(ctx, store, lineage)
	if err != nil {
		return nil, 0, err
	}
	var swept []string
	total := int64(0)
	for id, err := range store.Folders(ctx, layout.PacksPrefix(lineage)) {
		if err != nil {
			return swept, total, err
		}
		freed, err := removeOldPacks(ctx, store, lineage, id, used, before)
		if err != nil {
			return swept, total, err
		}
		if freed > 0 {
			swept = append(swept, id)
			total += freed
		}
	}
	return swept, total, nil
}
