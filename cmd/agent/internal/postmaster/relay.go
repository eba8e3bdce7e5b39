package postmaster

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	maxLogLine = 64 << 10               // bytes; what is longer is cut
	quietTime  = 200 * time.Millisecond // after which a message is taken for complete
	// A server that logs every statement would fill the node's disk and the log's store. Per second, and at once.
	maxRate, maxBurst = 500, 5000
)

// relay writes what the server says as records of a structured log.
type relay struct {
	log      *slog.Logger
	literals func() bool
	limit    *rate.Limiter
	dropped  int // since the last record that was written
	done     chan struct{}

	mu   sync.Mutex
	last string // why the server can't continue
}

// newLimit bounds how many records there are.
func newLimit() *rate.Limiter { return rate.NewLimiter(maxRate, maxBurst) }

func startRelay(from *os.File, log *slog.Logger, literals func() bool, limit *rate.Limiter) *relay {
	if literals == nil {
		literals = func() bool { return false }
	}
	r := &relay{log: log, literals: literals, limit: limit, done: make(chan struct{})}
	lines := make(chan string, 64)
	go readLines(from, lines)
	go r.run(lines)
	return r
}

// readLines ends when the last process of the server has closed its end.
func readLines(from *os.File, lines chan<- string) {
	defer close(lines)
	defer from.Close()
	reader := bufio.NewReaderSize(from, maxLogLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			lines <- strings.TrimSuffix(string(line), "\n")
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				slog.Error("PostgreSQL's log can't be read", "error", err)
			}
			return
		}
	}
}

func (r *relay) run(lines <-chan string) {
	defer close(r.done)
	assembler := &postgres.LogAssembler{}
	quiet := time.NewTimer(quietTime)
	for {
		select {
		case line, more := <-lines:
			if !more {
				r.flush(assembler)
				return
			}
			assembler.Literals = r.literals()
			if record, ok := assembler.Add(line); ok {
				r.write(record)
			}
			quiet.Reset(quietTime)
		case <-quiet.C:
			r.flush(assembler)
		}
	}
}

func (r *relay) flush(assembler *postgres.LogAssembler) {
	if record, ok := assembler.Flush(); ok {
		r.write(record)
	}
}

func (r *relay) write(record postgres.LogRecord) {
	r.note(record)
	if severe := record.Level == "FATAL" && record.User == "" || record.Level == "PANIC"; !severe && !r.limit.Allow() {
		r.dropped++
		return
	}
	if r.dropped > 0 {
		r.log.Warn("PostgreSQL writes more messages than the log takes, so some are missing here", "missing", r.dropped, "perSecond", maxRate)
		r.dropped = 0
	}
	at := record.Time
	if at.IsZero() {
		at = time.Now()
	}
	entry := slog.NewRecord(at, logLevel(record.Level), record.Message, 0)
	entry.AddAttrs(slog.String("logger", "postgres"))
	if record.PID != 0 {
		entry.AddAttrs(slog.Int("pid", record.PID))
	}
	for _, field := range []struct{ key, value string }{
		{"severity", record.Level}, {"backend", record.Backend}, {"sqlstate", sqlState(record.SQLState)},
		{"transaction", record.Transaction}, {"queryID", record.QueryID},
		{"client", record.Client}, {"user", record.User}, {"database", record.Database}, {"application", record.Application},
		{"detail", record.Detail}, {"hint", record.Hint}, {"context", record.Context}, {"query", record.Query}, {"statement", record.Statement},
	} {
		if field.value != "" {
			entry.AddAttrs(slog.String(field.key, field.value))
		}
	}
	_ = r.log.Handler().Handle(context.Background(), entry) // there is nowhere to say that a log line was lost
}

// sqlState leaves out the state that only says that nothing is wrong.
func sqlState(state string) string {
	if state == "00000" {
		return ""
	}
	return state
}

func logLevel(level string) slog.Level {
	switch level {
	case "WARNING":
		return slog.LevelWarn
	case "ERROR", "FATAL", "PANIC":
		return slog.LevelError
	}
	if strings.HasPrefix(level, "DEBUG") {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// note keeps what the postmaster and its start-up process say when they give up. A session's FATAL is no such thing.
func (r *relay) note(record postgres.LogRecord) {
	if record.User != "" || (record.Level != "FATAL" && record.Level != "PANIC") {
		return
	}
	text := record.Message
	if record.Hint != "" {
		text += " " + record.Hint
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = text
}

func (r *relay) complaint() string {
	r.wait(quietTime)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// wait waits until all is relayed, but not for ever: a process that left the server may hold its end open.
func (r *relay) wait(patience time.Duration) {
	select {
	case <-r.done:
	case <-time.After(patience):
	}
}
