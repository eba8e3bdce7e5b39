package backup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const modelSeg = postgres.MinSegSize

// point is a state that the database of a model was in.
type point struct {
	at       time.Time
	timeline uint32
	lsn      postgres.LSN
}

// model is a database that is written, backed up, fails over and is cleaned up, and what must be in the bucket.
type model struct {
	*testing.T
	rand      *rand.Rand
	store     *mem.Store
	now       time.Time
	here      point
	files     [5]string
	points    []point
	timelines []retention.Timeline
	manifests map[string]*Manifest // every backup ever
	content   map[string][5]string // of its files
	damaged   map[string]bool
	policy    retention.Policy
	// ended is when the database was lost, and seen when the clean up saw its lineage first, in another Kubernetes.
	ended, seen time.Time
	log         []string
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		T: t, rand: rand.New(rand.NewPCG(seed, 7)), store: mem.New(), now: testStart, manifests: map[string]*Manifest{}, content: map[string][5]string{},
		damaged: map[string]bool{},
	}
	m.here = point{at: m.now, timeline: 1, lsn: 3 * modelSeg}
	_, err := layout.Claim(t.Context(), m.store, layout.Lineage{
		Lineage: testLineage, Writer: layout.Writer{UID: "u1"}, SegmentSize: modelSeg, Created: m.now,
	})
	must(t, err)
	pick := func(n int) int { return max(0, m.rand.IntN(2*n)-n) }
	m.policy = retention.Policy{
		KeepLast: pick(4), KeepDaily: pick(5), KeepWeekly: pick(4), KeepMonthly: pick(3), KeepYearly: pick(2),
		KeepWithin: time.Duration(pick(15)) * 12 * time.Hour, RecoveryWindow: time.Duration(pick(20)) * 12 * time.Hour,
	}
	if m.rand.IntN(2) == 0 { // rules that count keep a last copy anyway
		m.policy = retention.Policy{KeepWithin: m.policy.KeepWithin, RecoveryWindow: m.policy.RecoveryWindow}
	}
	for i := range m.files {
		m.files[i] = fmt.Sprintf("file %d", i)
	}
	return m
}

func (m *model) note(format string, args ...any) {
	m.log = append(m.log, m.now.Format("01-02T15 ")+fmt.Sprintf(format, args...))
}

// write lets some hours pass in which the database is written to and its WAL archived.
func (m *model) write() {
	for range 1 + m.rand.IntN(3) {
		m.now = m.now.Add(time.Duration(1+m.rand.IntN(15)) * time.Hour)
		m.files[m.rand.IntN(len(m.files))] = fmt.Sprintf("written %d", m.rand.Uint64())
		m.archive(postgres.SegmentOf(m.here.timeline, m.here.lsn, modelSeg).Name())
		m.here.at, m.here.lsn = m.now, (m.here.lsn/modelSeg+1)*modelSeg+postgres.LSN(m.rand.IntN(modelSeg-1))+1
		m.points = append(m.points, m.here) // reachable once its segment is archived
	}
}

func (m *model) archive(name string) {
	must(m.T, wal.New(m.store).Put(m.Context(), testLineage, name, []byte(name), wal.Info{Writer: "model"}))
}

// failOver continues with a new timeline, sometimes from a position before the one that was reached.
func (m *model) failOver() {
	fork := m.here.lsn
	if m.rand.IntN(2) == 0 {
		fork -= postgres.LSN(min(uint64(m.rand.IntN(2*modelSeg)), uint64(fork)-2*modelSeg))
	}
	for _, t := range m.timelines { // not before the timeline itself began
		if a := t.History.Ancestors; t.History.Timeline == m.here.timeline && fork <= a[len(a)-1].LSN {
			return
		}
	}
	m.archive(postgres.SegmentOf(m.here.timeline, m.here.lsn, modelSeg).Name())
	history := postgres.TimelineHistory{Timeline: m.here.timeline + 1}
	if n := len(m.timelines); n > 0 {
		history.Ancestors = append(history.Ancestors, m.timelines[n-1].History.Ancestors...)
	}
	history.Ancestors = append(history.Ancestors, postgres.TimelineSwitch{Timeline: m.here.timeline, LSN: fork})
	m.timelines = append(m.timelines, retention.Timeline{History: history, Since: m.now})
	m.here = point{at: m.now, timeline: history.Timeline, lsn: fork}
	m.note("fail over to timeline %d at %s", history.Timeline, fork)
}

// backUp makes a backup, an incremental one half of the time where there is one to point into.
func (m *model) backUp() {
	m.write()
	id := fmt.Sprintf("b%03d", len(m.manifests))
	first := m.here
	m.write()
	last := postgres.SegmentBefore(m.here.timeline, m.here.lsn, modelSeg)
	m.archive(last.Name())
	manifest := &Manifest{Header: Header{
		Format: FormatVersion, ID: id, Lineage: testLineage, Type: Full, StartLSN: first.lsn, StopLSN: m.here.lsn, Timeline: m.here.timeline,
		StartTime: first.at, StopTime: m.now,
		WAL: WALRange{SegmentSize: modelSeg, First: postgres.SegmentOf(m.here.timeline, first.lsn, modelSeg).Name(), Last: last.Name()},
	}}
	parent := m.parent()
	if parent != nil {
		manifest.Type, manifest.Parent = Incremental, parent.ID
	}
	pack, err := envelope.Seal(envelope.Pack, packHeader{Lineage: testLineage, Backup: id, Name: "p"})
	must(m.T, err)
	for i, content := range m.files {
		file := File{Path: fmt.Sprint(i), Kind: Regular, Mode: 0o600, Size: int64(len(content)), MTime: m.now}
		if parent != nil && m.content[parent.ID][i] == content {
			part := parent.Files[i].Parts[0]
			frame := *part.Frame
			frame.Pack = packIndex(manifest, parent.Packs[frame.Pack])
			part.Frame = &frame
			file.Parts = []Part{part}
		} else {
			frame := &Frame{Pack: packIndex(manifest, Pack{Backup: id, Name: "p"}), Offset: uint32(len(pack)), Coding: codec.Raw}
			frame.Stored, frame.Content = uint32(len(content)), uint32(len(content))
			frame.StoredCRC, frame.ContentCRC = codec.CRC([]byte(content)), codec.CRC([]byte(content))
			file.Parts = []Part{{Length: uint32(len(content)), Frame: frame}}
			pack = append(pack, content...)
		}
		manifest.Files = append(manifest.Files, file)
	}
	for i := range manifest.Packs {
		if manifest.Packs[i].Backup == id {
			manifest.Packs[i].Size = int64(len(pack))
			must(m.T, m.store.Put(m.Context(), layout.PackKey(testLineage, id, "p"), pack, objstore.PutOptions{}))
		}
	}
	manifest.Totals.Files = len(manifest.Files)
	object, err := encodeManifest(manifest)
	must(m.T, err)
	must(m.T, m.store.Put(m.Context(), layout.ManifestKey(testLineage, id), object, objstore.PutOptions{IfAbsent: true}))
	m.manifests[id], m.content[id] = manifest, m.files
	m.note("backup %s of %s, WAL %s to %s", id, manifest.Parent, manifest.WAL.First, manifest.WAL.Last)
}

func packIndex(manifest *Manifest, pack Pack) uint32 {
	for i := range manifest.Packs {
		if manifest.Packs[i].Backup == pack.Backup {
			return uint32(i)
		}
	}
	manifest.Packs = append(manifest.Packs, pack)
	return uint32(len(manifest.Packs) - 1)
}

// parent is a backup to point into, or nil.
func (m *model) parent() *Manifest {
	entries := m.list()
	if len(entries) == 0 || m.rand.IntN(2) == 0 {
		return nil
	}
	return m.manifests[entries[m.rand.IntN(len(entries))].ID]
}

func (m *model) list() []Entry {
	entries, err := List(m.Context(), m.store, testLineage)
	must(m.T, err)
	return entries
}

// breaking is the store, with a crash at a random call most of the time.
func (m *model) breaking() objstore.Store {
	if m.rand.IntN(4) == 0 {
		return m.store
	}
	return crashing(m.store, 1+m.rand.IntN(40), m.rand.IntN(2) == 0)
}

func (m *model) deleteOne() {
	if entries := m.list(); len(entries) > 0 {
		id := entries[m.rand.IntN(len(entries))].ID
		m.note("delete %s", id)
		_, _ = Delete(m.Context(), m.breaking(), testLineage, id)
	}
}

// lose ends the database. Some days later its lineage is seen by a clean up that knows nothing of it.
func (m *model) lose() {
	m.ended = m.now
	m.now = m.now.Add(time.Duration(m.rand.IntN(30*24)) * time.Hour)
	m.seen = m.now
	m.note("the database is lost, and its lineage seen again")
}

// live lets something happen to the database; after its end, time passes.
func (m *model) live() {
	switch n := m.rand.IntN(14); {
	case !m.ended.IsZero():
		m.now = m.now.Add(time.Duration(m.rand.IntN(5*24)) * time.Hour)
	case n < 6:
		m.write()
	case n < 12:
		m.backUp()
	default:
		m.failOver()
	}
}

// damage has a check find a backup damaged.
func (m *model) damage() {
	if entries := m.list(); len(entries) > 0 {
		id := entries[m.rand.IntN(len(entries))].ID
		m.damaged[id] = true
		m.note("backup %s is damaged", id)
	}
}

// cleanUp is a run of retention, as far as it gets.
func (m *model) cleanUp(store objstore.Store) {
	promised, possible := m.reachable(m.good), m.reachable(everyone)
	plan := m.plan()
	m.note("clean up: %d go, WAL before %X", len(plan.Going()), plan.KeepWAL)
	err := func() error {
		for _, b := range plan.Going() {
			if _, err := Delete(m.Context(), store, testLineage, b.ID); err != nil {
				return err
			}
		}
		if _, err := ExpireWAL(m.Context(), store, testLineage, plan.KeepWAL); err != nil {
			return err
		}
		_, _, err := SweepOrphans(m.Context(), store, testLineage, time.Now().Add(time.Hour))
		return err
	}()
	if err != nil && !errors.Is(err, errCrash) {
		m.fail("%v", err)
	}
	after := m.reachable(m.good)
	for p := range promised {
		if m.promises(p) && !after[p] {
			m.fail("point %+v was promised by %+v and is lost", p, m.policy)
		}
	}
	if end := m.points[len(m.points)-1]; possible[end] && !m.reachable(everyone)[end] {
		m.fail("the end of the lineage could be reached from a damaged backup, and is lost")
	}
}

func (m *model) good(id string) bool { return !m.damaged[id] }

func everyone(string) bool { return true }

// promises says that the policy promises a point: one within the window, or the last one.
func (m *model) promises(p point) bool {
	if p == m.points[len(m.points)-1] {
		return true
	}
	end := m.now
	if !m.ended.IsZero() {
		end = m.ended.Add(m.now.Sub(m.seen))
	}
	return m.policy.RecoveryWindow > 0 && !p.at.Before(end.Add(-m.policy.RecoveryWindow)) || m.policy.Empty()
}

func (m *model) plan() retention.Plan {
	lineage := retention.Lineage{Timelines: m.timelines, Living: m.ended.IsZero(), End: m.now, FirstSeen: m.seen}
	if !m.ended.IsZero() {
		lineage.End = m.ended
	}
	for _, e := range m.list() {
		must(m.T, e.Err)
		first, _, err := e.Header.WAL.Segments()
		must(m.T, err)
		lineage.Backups = append(lineage.Backups, retention.Backup{
			ID: e.ID, Time: e.Header.StopTime, Timeline: e.Header.Timeline, Stop: e.Header.StopLSN, First: first.Number, Damaged: m.damaged[e.ID],
		})
	}
	return retention.Make(lineage, m.policy, m.now)
}

// reachable are the points to which the bucket leads from backups that count.
func (m *model) reachable(counts func(id string) bool) map[point]bool {
	have := map[string]bool{}
	for _, key := range keys(m.T, m.store) {
		have[key[strings.LastIndex(key, "/")+1:]] = true
	}
	entries, found := m.list(), map[point]bool{}
	for _, p := range m.points {
		for _, e := range entries {
			if counts(e.ID) && m.leads(e.Header, p, have) {
				found[p] = true
			}
		}
	}
	return found
}

func (m *model) leads(header *Header, p point, have map[string]bool) bool {
	history := postgres.TimelineHistory{Timeline: p.timeline}
	for _, t := range m.timelines {
		if t.History.Timeline == p.timeline {
			history = t.History
		}
	}
	left, ancestor := history.Left(header.Timeline)
	if !ancestor || header.Timeline != p.timeline && header.StopLSN > left || header.StopLSN > p.lsn {
		return false
	}
	first, _, err := header.WAL.Segments()
	must(m.T, err)
	for s := first; s.Start() < p.lsn; s.Number++ {
		s.Timeline = history.At(s.End() - 1)
		if !have[s.Name()] {
			return false
		}
	}
	return true
}

// check reads every backup that is there, byte by byte.
func (m *model) check() {
	for _, e := range m.list() {
		manifest, err := ReadManifest(m.Context(), m.store, testLineage, e.ID)
		must(m.T, err)
		if _, err := Verify(m.Context(), m.store, manifest, VerifyOptions{Workers: 1, shortWAL: true}); err != nil {
			m.fail("backup %s: %v", e.ID, err)
		}
		for i, file := range manifest.Files {
			frame := file.Parts[0].Frame
			pack := manifest.Packs[frame.Pack]
			got := make([]byte, frame.Stored)
			_, err := m.store.ReadAt(m.Context(), layout.PackKey(testLineage, pack.Backup, pack.Name), got, int64(frame.Offset))
			if err != nil || string(got) != m.content[e.ID][i] {
				m.fail("backup %s, file %d: %q, %v", e.ID, i, got, err)
			}
		}
	}
}

// checkTidy makes sure that a whole clean up leaves nothing that nobody needs.
func (m *model) checkTidy() {
	m.cleanUp(m.store)
	plan, used := m.plan(), packPaths{}
	if n := len(plan.Going()); n > 0 {
		m.fail("%d backups that nothing keeps are there after a clean up", n)
	}
	needed, err := neededWAL(m.Context(), m.store, testLineage)
	must(m.T, err)
	for _, e := range m.list() {
		header, err := ReadHeader(m.Context(), m.store, e.Lineage, e.ID)
		must(m.T, err)
		used.addAll(header)
	}
	for _, key := range keys(m.T, m.store) {
		name := key[strings.LastIndex(key, "/")+1:]
		if _, pack, ok := strings.Cut(key, "/packs/"); ok && !used[pack] {
			m.fail("%s is an orphan", key)
		}
		if s, err := postgres.ParseSegment(name, modelSeg); err == nil && s.Number < plan.KeepWAL && !(expiry{needed: needed}).needs(s.Number) {
			m.fail("%s is needed by nobody", key)
		}
	}
}

func (m *model) fail(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\npolicy %+v\n%s", fmt.Sprintf(format, args...), m.policy, strings.Join(m.log, "\n"))
}

func TestWhateverHappensEveryBackupThatIsThereRestoresAndEveryPromiseIsKept(t *testing.T) {
	base, histories := uint64(os.Getpid())<<20, uint64(12)
	if raceDetector && testing.Short() {
		histories = 3
	}
	for i := range histories {
		t.Run(fmt.Sprintf("seed %d", base+i), func(t *testing.T) {
			m := newModel(t, base+i)
			for step := range 40 {
				switch n := m.rand.IntN(20); {
				case n < 13:
					m.live()
				case n < 14:
					m.deleteOne()
				case n < 15:
					m.damage()
				case n < 16 && m.ended.IsZero() && step > 10 && m.rand.IntN(2) == 0:
					m.lose()
				case len(m.points) > 0:
					m.cleanUp(m.breaking())
				}
				m.check()
			}
			if len(m.points) > 0 {
				m.checkTidy()
			}
		})
	}
}

func TestWALThatABackupNeedsOutlivesTheRest(t *testing.T) {
	for _, crash := range []bool{false, true} {
		m := newModel(t, 1)
		for range 4 {
			m.backUp()
		}
		store := objstore.Store(m.store)
		if crash {
			store = fault.New(m.store, fault.Plan{Before: func(c fault.Call) error {
				if c.Op == "delete" {
					return errCrash
				}
				return nil
			}})
		}
		removed, err := ExpireWAL(context.Background(), store, testLineage, retention.NoWAL)
		if crash != errors.Is(err, errCrash) || crash != (removed.Objects == 0) {
			t.Errorf("crash %v: removed %+v, %v", crash, removed, err)
		}
		m.check()
	}
}
