package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// line is one tool's medians at one work, as it stands in the JSON.
type line struct {
	Work              string  `json:"work"`
	Tool              string  `json:"tool"`
	Runs              int     `json:"runs"`
	WallSeconds       float64 `json:"wallSeconds"`
	CPUSeconds        float64 `json:"cpuSeconds"`
	PeakMiB           float64 `json:"peakMiB"`
	StoredBytes       int64   `json:"storedBytes"`
	Objects           int     `json:"objects"`
	SegmentsPerSecond float64 `json:"segmentsPerSecond,omitempty"`
	IdleShare         float64 `json:"idleShare"`   // of the processors' time
	StolenShare       float64 `json:"stolenShare"` // by other machines of the host
}

// results are all runs, in the order of their works and tools.
type results struct {
	about string // the machine and what runs on it
	keys  []key
	runs  map[key][]measured
}

type key struct{ work, tool string }

func (r *results) add(work, tool string, m measured) {
	k := key{work, tool}
	if r.runs == nil {
		r.runs = map[key][]measured{}
	}
	if r.runs[k] == nil {
		r.keys = append(r.keys, k)
	}
	r.runs[k] = append(r.runs[k], m)
}

// median is the middle one, or the lower of two in the middle.
func median[T cmp.Ordered](runs []measured, of func(measured) T) T {
	values := make([]T, len(runs))
	for i, run := range runs {
		values[i] = of(run)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

func (r *results) line(k key) line {
	runs := r.runs[k]
	return line{
		Work: k.work, Tool: k.tool, Runs: len(runs),
		WallSeconds: median(runs, func(m measured) float64 { return m.wall.Seconds() }),
		CPUSeconds:  median(runs, func(m measured) float64 { return m.cpu.Seconds() }),
		PeakMiB:     median(runs, func(m measured) float64 { return float64(m.peak) / (1 << 20) }),
		StoredBytes: median(runs, func(m measured) int64 { return m.stored }),
		Objects:     median(runs, func(m measured) int { return m.objects }),
		IdleShare:   median(runs, func(m measured) float64 { return m.machine.idleShare() }),
		StolenShare: median(runs, func(m measured) float64 { return m.machine.stolenShare() }),
		SegmentsPerSecond: median(runs, func(m measured) float64 {
			if m.segments == 0 {
				return 0
			}
			return float64(m.segments) / m.wall.Seconds()
		}),
	}
}

// publish prints the table and writes the JSON.
func (r *results) publish(to io.Writer, path string) error {
	lines := make([]line, 0, len(r.keys))
	for _, k := range r.keys {
		lines = append(lines, r.line(k))
	}
	fmt.Fprintf(to, "\n%s\n\n", r.about)
	if err := writeTable(to, lines); err != nil {
		return err
	}
	content, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

// writeTable writes Markdown, so that a document can include it as it is. In brackets is the ratio to pgBackRest.
func writeTable(to io.Writer, lines []line) error {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| work\t| tool\t| wall s\t| CPU s\t| MiB\t| stored MB\t| objects\t| segments/s\t| idle\t| stolen\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, l := range lines {
		peer := peerOf(l, lines)
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %.0f\t| %s\t| %d\t| %s\t| %.0f%%\t| %.0f%%\t|\n", l.Work, l.Tool,
			ratio("%.2f", l.WallSeconds, peer.WallSeconds), ratio("%.2f", l.CPUSeconds, peer.CPUSeconds), l.PeakMiB,
			ratio("%.1f", float64(l.StoredBytes)/1e6, float64(peer.StoredBytes)/1e6), l.Objects, rate(l.SegmentsPerSecond),
			100*l.IdleShare, 100*l.StolenShare)
	}
	return w.Flush()
}

func peerOf(l line, lines []line) line {
	for _, peer := range lines {
		if peer.Work == l.Work && peer.Tool == toolPgBackRest {
			return peer
		}
	}
	return line{}
}

func ratio(format string, value, peer float64) string {
	text := fmt.Sprintf(format, value)
	if peer > 0 && value != peer {
		text += fmt.Sprintf(" (%.2f)", value/peer)
	}
	return text
}

func rate(segments float64) string {
	if segments == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", segments)
}

// about says where the figures come from.
func (b *bench) about(ctx context.Context) string {
	size, files, err := b.pg.size()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %d processors, load %s; PostgreSQL %s, %s; %.2f GB in %d files; medians of %d", processor(),
		runtime.NumCPU(), load(), b.pg.version, b.restVersion(ctx), float64(size)/1e9, files, b.runs)
}

func processor() string {
	content, _ := os.ReadFile("/proc/cpuinfo") // it only says more
	for text := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(text, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// load is the machine's load before anything was measured.
func load() string {
	content, _ := os.ReadFile("/proc/loadavg") // it only says more
	return strings.Join(strings.Fields(string(content))[:min(1, len(content))], "")
}
