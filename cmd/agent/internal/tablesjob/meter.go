package tablesjob

import (
	"fmt"

	"howdah.dev/howdah/cmd/agent/internal/job"
)

// meter adds up how much was copied. What is known of the size of a table is what it takes on a disk, and what is read is text, so a table
// counts as done by its share, and never more than once.
type meter struct {
	report        func(job.Progress)
	state         job.Progress
	tables, begun int
}

func newMeter(wanted []relation, report func(job.Progress)) *meter {
	m := &meter{report: report, state: job.Progress{Phase: phaseCopying}}
	for _, r := range wanted {
		if r.Kind == kindTable {
			m.tables++
			m.state.TotalBytes += r.Bytes
		}
	}
	return m
}

// part is one table.
type part struct {
	meter             *meter
	total, done, read int64
}

func (m *meter) begin(r relation) *part {
	m.begun++
	m.state.Message = fmt.Sprintf("Table %d of %d: %s.", m.begun, m.tables, r)
	m.report(m.state)
	return &part{meter: m, total: r.Bytes}
}

// add is called by the one who reads, and by nobody else until that has ended.
func (p *part) add(bytes int64) {
	p.read += bytes
	p.count(min(bytes, p.total-p.done))
}

func (p *part) complete() { p.count(p.total - p.done) }

func (p *part) count(bytes int64) {
	p.done += bytes
	p.meter.state.DoneBytes += bytes
	p.meter.report(p.meter.state)
}

// indexing counts what comes after the rows.
func (m *meter) indexing(entries int) func() {
	m.state.Phase = phaseIndexing
	done := 0
	show := func() {
		m.state.Message = fmt.Sprintf("%d of %d indexes, constraints and triggers.", min(done, entries), entries)
		m.report(m.state)
	}
	show()
	return func() {
		done++
		show()
	}
}
