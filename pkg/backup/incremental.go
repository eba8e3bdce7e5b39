package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// base is what an incremental backup builds on.
type base struct {
	*Manifest
	files map[string]*File // regular ones, by their paths
	// timelines that lead from the parent's start to this backup's, with where each was left.
	path []stretch
}

// stretch is a run of WAL on one timeline.
type stretch struct {
	timeline uint32
	from, to postgres.LSN
}

// compare decides what is read: everything, or what has changed since the parent.
func (w *writing) compare(ctx context.Context, started Started, entries []*entry) error {
	if w.opts.Parent != "" {
		if err := w.buildOn(ctx, started, entries); err != nil {
			return fmt.Errorf("build on backup %s: %w", w.opts.Parent, err)
		}
	}
	for _, e := range entries {
		for from, to := range e.wanted() {
			w.total.Add(to - from)
		}
	}
	return nil
}

// buildOn leaves out what the parent has, if it can be built on.
func (w *writing) buildOn(ctx context.Context, started Started, entries []*entry) error {
	parent, err := w.adopt(ctx, started)
	if err == nil {
		err = w.reuse(ctx, parent, entries)
	}
	if errors.Is(err, errUnsuitable) {
		w.why = strings.TrimPrefix(err.Error(), errUnsuitable.Error()+": ")
		w.unclaim(ctx)
		return nil
	}
	if err != nil {
		return err
	}
	w.parent = parent
	return nil
}

// reuse decides what is taken from the parent. errUnsuitable: the header has no room for the packs in which that lies.
func (w *writing) reuse(ctx context.Context, parent *base, entries []*entry) error {
	size := int64(0)
	for _, e := range entries {
		size += e.Size
	}
	paired := parent.pair(entries)
	if err := w.findChanges(ctx, parent, paired); err != nil {
		return err
	}
	parent.readDamagedAgain(paired)
	(&reuse{parent, paired}).plan(size, cmp.Or(w.opts.mostParts, manyParts))
	if err := w.nameKept(parent, entries); err != nil {
		w.compared = ""
		for _, e := range entries {
			e.base, e.changed, e.kept, e.reach = nil, blockSet{}, nil, 0
		}
		return err
	}
	return nil
}

// nameKept counts the names of the packs that are kept, and of the backups that wrote them. errUnsuitable: with those that may be written
// there are too many for a header.
func (w *writing) nameKept(parent *base, entries []*entry) error {
	kept, packs, bytes, writers := map[uint32]bool{}, int64(0), int64(0), names{}
	err := writers.add(w.opts.ID)
	for _, e := range entries {
		for _, part := range e.kept {
			if at := part.Frame.Pack; !kept[at] {
				kept[at] = true
				packs += namesOf(parent.Packs[at : at+1])
				err = cmp.Or(err, writers.add(parent.Packs[at].Backup))
			}
		}
		for from, to := range e.wanted() {
			bytes += to - from
		}
	}
	own := bytes/max(w.fit.packSize-w.fit.frame, w.fit.packSize/2) + 2 // if nothing of it compresses
	most := cmp.Or(w.opts.mostNames, maxHeader-headerRoom)
	if err != nil {
		return unsuitable("an incremental backup would point at the packs of more than %d older backups, and no reader takes that many names", len(writers.all)-1)
	}
	if packs+own*w.packer.nameSize() > most {
		return unsuitable("the header of an incremental backup has no room for the names of %d packs of older backups, and of up to %d of its own", len(kept), own)
	}
	w.packer.names = packs
	return nil
}

// errUnsuitable is a parent that can't be built on. Then the backup is a full one.
var errUnsuitable = errors.New("a full backup was made")

func unsuitable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errUnsuitable, fmt.Errorf(format, args...))
}

// adopt reads the parent and claims its packs. errUnsuitable says why it can't be built on.
func (w *writing) adopt(ctx context.Context, started Started) (*base, error) {
	id := w.opts.Parent
	header, err := ReadHeader(ctx, w.store, w.source.Lineage, id)
	if err != nil {
		return nil, unreadableParent(id, err)
	}
	if err := checkMemory(w.opts.Memory, w.files, header.packCount, int64(w.files)*bytesPerFile+header.known()); err != nil {
		return nil, err
	}
	if damage := header.Damage; damage != nil && damage.Count > len(damage.Pages) {
		return nil, unsuitable("backup %s has %d damaged pages and lists %d of them, so it is unknown which of its pages can be kept", id, damage.Count, len(damage.Pages))
	}
	path, err := w.connect(header, started)
	if err != nil {
		return nil, err
	}
	if err := w.claim(ctx, header.Packs); err != nil {
		return nil, err
	}
	// Read after the claim: whoever deletes the parent from now on sees what is claimed of it.
	parent, err := ReadManifest(ctx, w.store, w.source.Lineage, id)
	if err != nil {
		return nil, unreadableParent(id, err)
	}
	if err := checkPacks(ctx, w.store, &parent.Header); errors.Is(err, ErrCorrupt) {
		return nil, unsuitable("backup %s can't be the parent: %w", id, err)
	} else if err != nil {
		return nil, err
	}
	if err := w.locking.requireChain(ctx, &parent.Header); err != nil {
		return nil, err
	}
	b := &base{Manifest: parent, files: map[string]*File{}, path: path}
	for i := range parent.Files {
		if f := &parent.Files[i]; f.Kind == Regular {
			b.files[f.Path] = f
		}
	}
	return b, nil
}

// readDamagedAgain keeps no page that was damaged in the parent: who repaired it may have left no trace in WAL.
func (b *base) readDamagedAgain(paired []*entry) {
	if b.Damage == nil {
		return
	}
	damaged := map[string][]uint32{}
	for _, page := range b.Damage.Pages {
		damaged[page.File] = append(damaged[page.File], page.Block)
	}
	for _, e := range paired {
		for _, block := range damaged[e.Path] {
			if e.base != nil && block >= e.first {
				e.changed.add(block-e.first, block-e.first+1)
			}
		}
	}
}

func unreadableParent(id string, err error) error {
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return unsuitable("parent backup %s is no longer in the repository", id)
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
		return unsuitable("backup %s can't be the parent: %w", id, err)
	}
	return err
}

// connect finds the WAL that leads from the parent's start to this backup's. All of the parent must be history of what is
// read now: else it holds what never happened here.
func (w *writing) connect(parent *Header, started Started) ([]stretch, error) {
	switch s := w.source; {
	case parent.SystemIdentifier != s.SystemIdentifier || parent.PGMajor != s.PGMajor:
		return nil, unsuitable("backup %s is from another database system", parent.ID)
	case parent.DataChecksums != s.DataChecksums:
		return nil, unsuitable("page checksums were switched on or off since backup %s", parent.ID)
	case started.LSN < parent.StopLSN:
		return nil, unsuitable("backup %s ends at %s, after this one's start at %s", parent.ID, parent.StopLSN, started.LSN)
	case parent.Timeline == started.Timeline:
		return []stretch{{started.Timeline, parent.StartLSN, started.LSN}}, nil
	}
	history, err := readHistory(w.source.DataDir, started.Timeline)
	if err != nil {
		return nil, unsuitable("it is unknown how timeline %d descends from that of backup %s: %w", started.Timeline, parent.ID, err)
	}
	var path []stretch
	at := parent.StartLSN
	for _, ancestor := range history.Ancestors {
		switch {
		case ancestor.Timeline < parent.Timeline:
			continue
		case ancestor.Timeline == parent.Timeline && ancestor.LSN < parent.StopLSN,
			ancestor.Timeline > parent.Timeline && len(path) == 0:
			return nil, unsuitable("timeline %d branched off before the end of backup %s", started.Timeline, parent.ID)
		}
		path = append(path, stretch{ancestor.Timeline, at, ancestor.LSN})
		at = ancestor.LSN
	}
	if len(path) == 0 {
		return nil, unsuitable("timeline %d does not descend from that of backup %s", started.Timeline, parent.ID)
	}
	return append(path, stretch{started.Timeline, at, started.LSN}), nil
}

func readHistory(dataDir string, timeline uint32) (postgres.TimelineHistory, error) {
	content, err := os.ReadFile(filepath.Join(dataDir, "pg_wal", fmt.Sprintf("%08X.history", timeline)))
	if err != nil {
		return postgres.TimelineHistory{}, err
	}
	return postgres.ParseTimelineHistory(timeline, content)
}
