package backup

import (
	"slices"

	"howdah.dev/howdah/pkg/postgres"
)

// describe makes the manifest.
func (w *writing) describe(started Started, stopped Stopped, entries []*entry) *Manifest {
	s := w.source
	m := &Manifest{Header: Header{
		Format: FormatVersion, ID: w.opts.ID, Lineage: s.Lineage, Type: Full, Why: w.why, Tool: w.opts.Tool,
		SystemIdentifier: s.SystemIdentifier, PGVersion: s.PGVersion, PGMajor: s.PGMajor, DataChecksums: s.DataChecksums, Damage: w.damage,
		StartLSN: started.LSN, StopLSN: stopped.LSN, Timeline: started.Timeline,
		StartTime: started.Time.UTC(), StopTime: stopped.Time.UTC(),
		WAL: WALRange{
			SegmentSize: s.WALSegmentSize,
			First:       postgres.SegmentOf(started.Timeline, started.LSN, s.WALSegmentSize).Name(),
			Last:        postgres.SegmentBefore(started.Timeline, stopped.LSN, s.WALSegmentSize).Name(),
		},
		BackupLabel: stopped.BackupLabel, TablespaceMap: stopped.TablespaceMap,
		Cluster: s.Cluster, Packs: w.packer.packs,
	}}
	entries = slices.DeleteFunc(entries, func(e *entry) bool { return e.vanished })
	added := w.added(entries)
	if w.parent != nil {
		m.Type, m.Parent, m.Compared = Incremental, w.parent.ID, w.compared
		m.Packs = w.parent.adoptKept(entries, m.Packs)
	}
	m.Files = make([]File, 0, len(entries))
	for _, e := range entries {
		m.Files = append(m.Files, e.finished())
	}
	m.Totals = totals(m.Files)
	m.Totals.Frames, m.Totals.StoredBytes, m.Totals.CopiedBytes = added.Frames, added.StoredBytes, added.CopiedBytes
	return m
}

// added counts what this backup has added to the bucket.
func (w *writing) added(entries []*entry) Totals {
	t := Totals{Frames: int(w.copier.frames.Load()), CopiedBytes: w.copier.zeroes.Load()}
	for _, pack := range w.packer.packs {
		t.StoredBytes += pack.Size
	}
	for _, e := range entries {
		for _, p := range e.Parts {
			t.CopiedBytes += int64(p.Length)
		}
	}
	return t
}
