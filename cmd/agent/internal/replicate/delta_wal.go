package replicate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// walReceiver is a pg_receivewal that runs beside a clone.
type walReceiver struct {
	begun   chan struct{}
	news    chan struct{}
	reached atomic.Uint64 // the end of the last whole segment
	ended   chan struct{}
	err     error
}

// What pg_receivewal says.
const saysReceives = "starting log streaming at "

var finishedSegment = regexp.MustCompile(`finished segment at ([0-9A-F]+/[0-9A-F]+) `)

// receiveWAL starts to receive the WAL of the source, and returns once that has begun. What the source writes from then on is
// received until the end of ctx.
func (i Instance) receiveWAL(ctx context.Context, source settings.Upstream, slot, pgdata string) (*walReceiver, error) {
	args := []string{
		"--directory=" + filepath.Join(pgdata, "pg_wal"), "--dbname=" + source.ConnInfo("", "", "", i.Paths), "--no-password", "--no-sync",
		"--no-loop", "--verbose",
	}
	if slot != "" {
		args = append(args, "--slot="+slot)
	}
	w, said := &walReceiver{begun: make(chan struct{}, 1), news: make(chan struct{}, 1), ended: make(chan struct{})}, &complaint{}
	receiver := program{path: filepath.Join(i.BinDir, "pg_receivewal"), args: args, endless: true, line: func(line string) {
		said.add(line)
		w.hear(line)
	}}
	go func() {
		defer close(w.ended)
		w.err = fmt.Errorf("receive WAL: %w", said.explain(errors.Join(receiver.run(ctx), errEnded)))
	}()
	select {
	case <-w.begun:
		return w, nil
	case <-w.ended:
		return nil, w.err
	}
}

// errEnded is why there is no more WAL: the program runs until it is ended.
var errEnded = errors.New("pg_receivewal has ended")

// hear takes note of what the program says.
func (w *walReceiver) hear(line string) {
	if strings.Contains(line, saysReceives) {
		tell(w.begun)
	}
	found := finishedSegment.FindStringSubmatch(line)
	if found == nil {
		return
	}
	if lsn, err := postgres.ParseLSN(found[1]); err == nil {
		w.reached.Store(uint64(lsn))
		tell(w.news)
	}
}

func tell(whom chan<- struct{}) {
	select {
	case whom <- struct{}{}:
	default:
	}
}

// awaitLSN waits until all segments with WAL before lsn are whole.
func (w *walReceiver) awaitLSN(lsn postgres.LSN) error {
	for postgres.LSN(w.reached.Load()) < lsn {
		select {
		case <-w.news:
		case <-w.ended:
			return w.err
		}
	}
	return nil
}
