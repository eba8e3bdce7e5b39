package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
		return nil, objstore.Missing(ctx, store, key, err)
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
	if errors.Is(err, ErrFormat) {
		return fmt.Errorf("%s: %w", key, err)
	}
	if errors.Is(err, envelope.ErrUnknown) {
		return fmt.Errorf("%s: %w: %w", key, ErrFormat, err)
	}
	return &CorruptError{Object: key, Detail: err.Error()}
}

// ReadHeader reads and checks the header of a manifest, by one small ranged read as a rule.
func ReadHeader(ctx context.Context, store objstore.Store, lineage, id string) (*Header, error) {
	packs := Packs{}
	header, err := scanHeader(ctx, store, lineage, id, packs.add)
	if err == nil {
		header.Packs = packs
	}
	return header, err
}

// ReadOutline is ReadHeader without the packs, of which a bucket may name very many. It takes little memory, whatever it finds.
func ReadOutline(ctx context.Context, store objstore.Store, lineage, id string) (*Header, error) {
	return scanHeader(ctx, store, lineage, id, forgetPacks)
}

// scanHeader is ReadOutline, which hands the packs to visit.
func scanHeader(ctx context.Context, store objstore.Store, lineage, id string, visit visitPack) (*Header, error) {
	if err := checkNames(lineage, id); err != nil {
		return nil, err
	}
	start, err := readStart(ctx, store, layout.ManifestKey(lineage, id), headerGuess)
	if err != nil {
		return nil, err
	}
	return readHeader(ctx, store, lineage, id, start, visit)
}

// startOf is the beginning of an object.
type startOf struct {
	bytes []byte
	whole bool // the object has no more
}

func readStart(ctx context.Context, store objstore.Store, key string, size int) (startOf, error) {
	b := make([]byte, size)
	n, err := store.ReadAt(ctx, key, b, 0)
	whole := errors.Is(err, objstore.ErrTorn)
	if whole {
		err = nil
	}
	return startOf{bytes: b[:n], whole: whole}, objstore.Missing(ctx, store, key, err)
}

// readHeader decodes a header from the beginning of a manifest, and reads more of that as far as the header is longer.
func readHeader(ctx context.Context, store objstore.Store, lineage, id string, start startOf, visit visitPack) (*Header, error) {
	key := layout.ManifestKey(lineage, id)
	meta, end, err := openMeta(start.bytes)
	var short *envelope.ShortError
	if errors.As(err, &short) && !start.whole {
		if start, err = readStart(ctx, store, key, short.Need); err != nil {
			return nil, err
		}
		meta, end, err = openMeta(start.bytes)
	}
	if err != nil {
		return nil, unreadable(key, err)
	}
	more := &remote{ctx: ctx, store: store, key: key, off: int64(len(start.bytes)), end: int64(end) + meta.HeaderStored}
	if start.whole {
		more.end = more.off
	}
	var refused error
	header, err := readHeaderFrom(io.MultiReader(bytes.NewReader(start.bytes[end:]), more), meta, func(pack *Pack) error {
		if refused == nil {
			refused = visit(pack)
		}
		return refused
	})
	switch {
	case more.err != nil:
		return nil, objstore.Missing(ctx, store, key, more.err)
	case refused != nil:
		return nil, fmt.Errorf("%s: %w", key, refused)
	case err != nil:
		return nil, unreadable(key, err)
	case header.Lineage != lineage || header.ID != id:
		return nil, &CorruptError{Object: key, Detail: "it is the manifest of " + header.Lineage + "/" + header.ID}
	}
	header.list.begin = int64(end) + meta.HeaderStored
	return header, nil
}

// checkList makes sure that the list of files lies in the store as it was written.
func checkList(ctx context.Context, store objstore.Store, header *Header) error {
	key, list := layout.ManifestKey(header.Lineage, header.ID), header.list
	stored := &remote{ctx: ctx, store: store, key: key, off: list.begin, end: list.begin + list.stored + 1}
	sum := &summed{from: stored}
	_, err := io.Copy(io.Discard, sum)
	switch {
	case stored.err != nil:
		return objstore.Missing(ctx, store, key, stored.err)
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case sum.n != list.stored || sum.crc != list.crc:
		return &CorruptError{Object: key, Detail: errList.Error()}
	}
	return nil
}

// headerGuess is enough for the header of most backups.
const headerGuess = 64 << 10

// Entry is one backup in a bucket.
type Entry struct {
	Lineage string
	ID      string
	// Committed is when the store took the manifest.
	Committed    time.Time
	ManifestSize int64   // bytes
	Header       *Header // nil if Err is set; without its packs
	Err          error   // why the manifest can't be read; a *CorruptError if it is damaged
}

// maxEntries bounds what a list takes: a bucket is not trusted, and may claim to have any number of backups.
const maxEntries = 1 << 17

// List finds all backups in a store, or those of one lineage if it isn't empty, in the order of
// lineage and id. A manifest that can't be read is an Entry with Err; only a list that can't be made
// is an error. It holds the headers of all; Each holds one.
func List(ctx context.Context, store objstore.Store, lineage string) (entries []Entry, err error) {
	err = Each(ctx, store, lineage, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// Each calls visit for the backups that List would find, in the same order. It holds one header at a time, and of the others only
// the names, so that its memory depends on the largest backup and not on how many there are. It ends at the first error of visit.
func Each(ctx context.Context, store objstore.Store, lineage string, visit func(Entry) error) error {
	lineages := []string{lineage}
	if lineage == "" {
		all, err := layout.Lineages(ctx, store)
		if err != nil {
			return err
		}
		lineages = all
	}
	var entries []Entry
	for _, name := range lineages {
		found, err := entriesOf(ctx, store, name, maxEntries-len(entries))
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	return each(ctx, store, entries, forgetPacks, visit)
}

// each reads the headers of some backups, and hands the packs of each to pack before it visits the backup.
func each(ctx context.Context, store objstore.Store, entries []Entry, pack visitPack, visit func(Entry) error) error {
	for some := range slices.Chunk(entries, headerReaders) {
		if err := eachOf(ctx, store, some, pack, visit); err != nil {
			return err
		}
	}
	return nil
}

// IDs are those of the backups of a lineage, in order, whether they can be read or not.
func IDs(ctx context.Context, store objstore.Store, lineage string) ([]string, error) {
	entries, err := entriesOf(ctx, store, lineage, maxEntries)
	ids := make([]string, 0, len(entries))
	for _, entry := range entries {
		ids = append(ids, entry.ID)
	}
	return ids, err
}

// entriesOf are the backups of a lineage, without their headers.
func entriesOf(ctx context.Context, store objstore.Store, lineage string, most int) ([]Entry, error) {
	var entries []Entry
	for info, err := range store.List(ctx, layout.BackupsPrefix(lineage), "") {
		if err != nil {
			return nil, err
		}
		id := path.Base(path.Dir(info.Key))
		if info.Key != layout.ManifestKey(lineage, id) || checkNames(lineage, id) != nil {
			continue
		}
		if len(entries) == most {
			return nil, fmt.Errorf("%w: there are more than %d backups, which is more than is read", ErrTooLarge, maxEntries)
		}
		entries = append(entries, Entry{Lineage: lineage, ID: id, Committed: info.Modified, ManifestSize: info.Size})
	}
	return entries, nil
}

// headerReaders is how many manifests are read at a time.
const headerReaders = 8

// eachOf reads the beginnings of some manifests at once, because a store takes its time, and decodes one after the other, because
// a header may be far larger than what is stored of it.
func eachOf(ctx context.Context, store objstore.Store, entries []Entry, pack visitPack, visit func(Entry) error) error {
	starts, errs := make([]startOf, len(entries)), make([]error, len(entries))
	group := errgroup.Group{}
	for i, e := range entries {
		group.Go(func() error {
			starts[i], errs[i] = readStart(ctx, store, layout.ManifestKey(e.Lineage, e.ID), headerGuess)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, e := range entries {
		if e.Err = errs[i]; e.Err == nil {
			e.Header, e.Err = readHeader(ctx, store, e.Lineage, e.ID, starts[i], pack)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes a backup: first its manifest, then the packs that it pointed at and no other manifest of the lineage
// does. If what the others point at can't be read, nothing is removed. It may be repeated after a crash or an error; a
// backup that isn't there is no error. Packs of other backups that a crash leaves behind are orphans, which SweepOrphans
// finds. It returns the bytes that were freed this time.
//
// An incremental backup may be written meanwhile: it has claimed what it may point at. The writer of this one must have
// ended; what it had sent may arrive meanwhile, and goes, too.
func Delete(ctx context.Context, store objstore.Store, lineage, id string) (int64, error) {
	if err := checkNames(lineage, id); err != nil {
		return 0, err
	}
	owners, there, err := packOwners(ctx, store, lineage, id)
	if err != nil {
		return 0, err
	}
	if there { // first, else its manifest could go for nothing
		if err := eachUsed(ctx, store, lineage, id, forgetPacks); err != nil {
			return 0, err
		}
	}
	if err := store.Delete(ctx, layout.ManifestKey(lineage, id)); err != nil {
		return 0, err
	}
	if err := dropClaims(ctx, store, lineage, id, time.Time{}); err != nil {
		return 0, err
	}
	freed := int64(0)
	err = eachRangeOfPacks(func(used *usedPacks) error { // again: another backup may have been begun on this one meanwhile
		return eachUsed(ctx, store, lineage, "", used.add)
	}, func(used *usedPacks) error {
		for _, owner := range owners {
			n, err := removePacks(ctx, store, lineage, owner, used)
			freed += n
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return freed, err
	}
	return freed, store.Delete(ctx, layout.ManifestKey(lineage, id))
}

// packOwners are the backups whose packs a backup points at, and itself. Of one that can't be read only itself is known. And it
// says whether there is a manifest.
func packOwners(ctx context.Context, store objstore.Store, lineage, id string) (all []string, there bool, err error) {
	owners := names{}
	_, err = scanHeader(ctx, store, lineage, id, func(pack *Pack) error { return owners.add(pack.Backup) })
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return []string{id}, false, nil
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
		return []string{id}, true, nil
	case err != nil:
		return nil, false, err
	}
	return owners.after(id), true, nil
}

// eachUsed visits what all manifests of a lineage point at, but for one. One that can't be read could point at
// anything: then nothing may be removed.
func eachUsed(ctx context.Context, store objstore.Store, lineage, without string, visit visitPack) error {
	// Claims before manifests: who gives one up has put the other. And once more, for claims made on a backup that was
	// removed between the two.
	if err := eachClaimed(ctx, store, lineage, without, visit); err != nil {
		return err
	}
	entries, err := entriesOf(ctx, store, lineage, maxEntries)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.ID == without })
	err = each(ctx, store, entries, visit, func(e Entry) error {
		switch {
		case errors.Is(e.Err, objstore.ErrNotFound): // removed meanwhile
		case e.Err != nil:
			return fmt.Errorf("no pack may be removed while backup %s can't be read: %w", e.ID, e.Err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachClaimed(ctx, store, lineage, without, visit)
}

// removePacks removes the packs that a backup wrote and nobody uses. It returns their bytes.
func removePacks(ctx context.Context, store objstore.Store, lineage, id string, used *usedPacks) (int64, error) {
	return removeOldPacks(ctx, store, lineage, id, used, time.Time{})
}

// removeOldPacks is removePacks for those that were put before a time, if it isn't zero.
func removeOldPacks(ctx context.Context, store objstore.Store, lineage, id string, used *usedPacks, before time.Time) (int64, error) {
	var keys []string
	freed, batch := int64(0), int64(0)
	remove := func() error {
		if len(keys) == 0 {
			return nil
		}
		if err := store.Delete(ctx, keys...); err != nil {
			return err
		}
		freed += batch
		keys, batch = nil, 0
		return nil
	}
	for info, err := range store.List(ctx, layout.BackupPacksPrefix(lineage, id), "") {
		if err != nil {
			return freed, err
		}
		if !used.unused(id, path.Base(info.Key)) || !before.IsZero() && !info.Modified.Before(before) {
			continue
		}
		keys = append(keys, info.Key)
		batch += info.Size
		if len(keys) == expireBatch {
			if err := remove(); err != nil {
				return freed, err
			}
		}
	}
	err := remove()
	return freed, err
}
