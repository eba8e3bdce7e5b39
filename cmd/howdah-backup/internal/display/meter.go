package display

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Meter shows how far a work is: a bar on a terminal, a line now and then elsewhere. It is safe for concurrent use.
type Meter struct {
	out   io.Writer
	width func() int // of the terminal; 0: it is none
	now   func() time.Time

	mu      sync.Mutex
	what    string
	since   time.Time // when what began
	first   int64     // that was done then
	written time.Time // the last plain line
	shown   bool      // a bar stands in the terminal's line
}

// lineInterval is the time between two plain lines.
const lineInterval = 10 * time.Second

// NewMeter shows progress on a file, unless quiet.
func NewMeter(file *os.File, quiet bool) *Meter {
	if quiet {
		return &Meter{out: io.Discard, width: func() int { return 0 }, now: time.Now}
	}
	return &Meter{out: file, width: func() int { return Width(file) }, now: time.Now}
}

// Width is that of a terminal in columns, or 0 of anything else.
func Width(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// Report takes in how much of a total in bytes is done. Another what begins anew.
func (m *Meter) Report(what string, done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if what != m.what {
		m.clear()
		m.what, m.since, m.first, m.written = what, now, done, now
	}
	elapsed := now.Sub(m.since).Seconds()
	rate := 0.0
	if elapsed > 0.5 {
		rate = float64(done-m.first) / elapsed
	}
	if width := m.width(); width > 0 {
		fmt.Fprintf(m.out, "\r\033[K%s", bar(what, done, total, rate, width))
		m.shown = true
		return
	}
	if now.Sub(m.written) >= lineInterval {
		m.written = now
		fmt.Fprintln(m.out, line(what, done, total, rate))
	}
}

// Done takes the bar away, so that something else can be written.
func (m *Meter) Done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
	m.what = ""
}

func (m *Meter) clear() {
	if m.shown {
		fmt.Fprint(m.out, "\r\033[K")
		m.shown = false
	}
}

func fraction(done, total int64) float64 {
	if total <= 0 {
		return 0
	}
	return min(1, max(0, float64(done)/float64(total)))
}

// line is the progress as text.
func line(what string, done, total int64, rate float64) string {
	text := fmt.Sprintf("%s: %s of %s, %.0f%%", what, Bytes(done), Bytes(total), 100*fraction(done, total))
	if rate > 0 {
		text += fmt.Sprintf(", %s/s", Bytes(int64(rate)))
		if done < total {
			text += ", " + left(total-done, rate)
		}
	}
	return text
}

func left(bytes int64, rate float64) string {
	return (time.Duration(float64(bytes)/rate) * time.Second).Truncate(time.Second).String() + " left"
}

// bar is the progress as a bar that fits into a terminal's line.
func bar(what string, done, total int64, rate float64, width int) string {
	text := line(what, done, total, rate)
	room := min(40, width-1-len([]rune(text))-3)
	if room < 8 {
		return string([]rune(text)[:min(len([]rune(text)), max(0, width-1))])
	}
	full := int(fraction(done, total) * float64(room))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "] " + text
}
