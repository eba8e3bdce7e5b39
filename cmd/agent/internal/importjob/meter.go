package importjob

import (
	"fmt"
	"strings"
	"sync"

	"howdah.dev/howdah/cmd/agent/internal/job"
)

// meter adds up how much was copied. What the source says of the size of a table is what it takes on a disk there, and what goes over
// the connection is text, so a part counts as done by its share, and never more than once.
type meter struct {
	report func(job.Progress)

	mu       sync.Mutex
	state    job.Progress
	database string
	tables   int // of the database, with data
	begun    int
	indexes  int
	built    int
}

func newMeter(inv *Inventory, report func(job.Progress)) *meter {
	m := &meter{report: report, state: job.Progress{Phase: phaseCopying}}
	for _, d := range inv.Databases {
		m.state.TotalBytes += d.dataBytes()
	}
	return m
}

func (m *meter) phase(name, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Phase, m.state.Message = name, message
	m.report(m.state)
}

// begin with the data of a database.
func (m *meter) begin(d Database) {
	m.mu.Lock()
	m.database, m.tables, m.begun = d.Name, 0, 0
	for _, t := range d.Tables {
		if t.Kind == kindTable && !t.OfExtension {
			m.tables++
		}
	}
	message := fmt.Sprintf("Database %s: %d tables.", d.Name, m.tables)
	m.mu.Unlock()
	m.phase(phaseCopying, message)
}

// tableLine takes a line of pg_restore, which says when it begins with a table.
func (m *meter) tableLine(line string) {
	if !strings.Contains(line, "processing data for table") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun++
	m.state.Message = fmt.Sprintf("Database %s: table %d of %d.", m.database, min(m.begun, m.tables), m.tables)
	m.report(m.state)
}

// beginIndexes with this many entries.
func (m *meter) beginIndexes(d Database, entries int) {
	m.mu.Lock()
	m.indexes, m.built = entries, 0
	m.mu.Unlock()
	m.phase(phaseIndexing, fmt.Sprintf("Database %s: %d indexes, constraints and triggers.", d.Name, entries))
}

func (m *meter) indexBuilt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.built++
	m.state.Message = fmt.Sprintf("Database %s: %d of %d indexes, constraints and triggers.", m.database, min(m.built, m.indexes), m.indexes)
	m.report(m.state)
}

// part of the data, which goes over one connection.
type part struct {
	meter       *meter
	bytes, done int64
}

func (m *meter) part(bytes int64) *part { return &part{meter: m, bytes: bytes} }

func (p *part) add(bytes int64) { p.count(min(bytes, p.bytes-p.done)) }

func (p *part) complete() { p.count(p.bytes - p.done) }

func (p *part) count(bytes int64) {
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	p.done += bytes
	p.meter.state.DoneBytes += bytes
	p.meter.report(p.meter.state)
}
