package importjob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/agentapi"
)

// copyDatabase brings the schema, then the data, then indexes and constraints, all of one snapshot.
func (w *Worker) copyDatabase(ctx context.Context, source *source, d Database, meter *meter) error {
	snapshot, release, err := w.snapshot(ctx, source, d)
	if err != nil {
		return err
	}
	defer release()
	path, remove, err := w.archive()
	if err != nil {
		return err
	}
	defer remove()
	args := w.dumpArguments(d, snapshot)
	if err := run(ctx, source.environment(d.Name), nil, w.program("pg_dump"), append(args, "--section=pre-data", "--section=post-data", "--file="+path)...); err != nil {
		return err
	}
	list, err := w.contents(ctx, path)
	if err != nil {
		return err
	}
	restore := []string{"--exit-on-error", "--no-password", "--no-tablespaces", "--dbname=" + conninfo(d.Name), "--use-list=" + list}
	if err := run(ctx, w.targetEnvironment(), nil, w.program("pg_restore"), append(restore, "--section=pre-data", path)...); err != nil {
		return err
	}
	meter.begin(d)
	if err := w.copyData(ctx, source, d, args, meter); err != nil {
		return err
	}
	release() // the source is no longer needed, and vacuum continues there
	return w.buildIndexes(ctx, d, path, restore, meter)
}

// buildIndexes brings what comes after the data.
func (w *Worker) buildIndexes(ctx context.Context, d Database, path string, restore []string, meter *meter) error {
	out, err := output(ctx, w.targetEnvironment(), w.program("pg_restore"), "--list", "--section=post-data", path)
	if err != nil {
		return err
	}
	meter.beginIndexes(d, len(entries(out)))
	built := func(line string) {
		if strings.Contains(line, "finished item") || strings.Contains(line, ": creating ") {
			meter.indexBuilt()
		}
	}
	return run(ctx, w.targetEnvironment(), built, w.program("pg_restore"),
		append(restore, "--section=post-data", "--verbose", fmt.Sprintf("--jobs=%d", w.Task.Connections), path)...)
}

// conninfo names a database whatever characters it has.
func conninfo(database string) string {
	return "dbname='" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(database) + "'"
}

// entries are the lines of a list of contents that are no comments.
func entries(list []byte) (lines []string) {
	for line := range strings.SplitSeq(string(list), "\n") {
		if line != "" && !strings.HasPrefix(line, ";") {
			lines = append(lines, line)
		}
	}
	return lines
}

// contents writes what of an archive is restored, and returns where.
func (w *Worker) contents(ctx context.Context, path string) (list string, err error) {
	out, err := output(ctx, w.targetEnvironment(), w.program("pg_restore"), "--list", path)
	if err != nil {
		return "", err
	}
	kept := slices.DeleteFunc(entries(out), w.staysBehind)
	list = filepath.Join(filepath.Dir(path), "contents")
	return list, os.WriteFile(list, []byte(strings.Join(kept, "\n")+"\n"), 0o600)
}

// ofOnlineImport is a table in the publication of an online import, in a schema of any name.
var ofOnlineImport = regexp.MustCompile(`^PUBLICATION TABLE .+ ` + agentapi.OnlineImportPrefix + `[0-9a-f]+ `)

// staysBehind: rights in PostgreSQL's own functions and tables, which a provider hands out and which fit another server's roles; and
// extensions that are not wanted, and publications of online imports. A line is: 215; 1259 16400 TABLE public events owner.
func (w *Worker) staysBehind(line string) bool {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) < 4 {
		return false
	}
	entry := fields[3]
	for _, start := range []string{"ACL pg_catalog ", "PUBLICATION - " + agentapi.OnlineImportPrefix, "COMMENT - PUBLICATION " + agentapi.OnlineImportPrefix} {
		if strings.HasPrefix(entry, start) {
			return true
		}
	}
	if ofOnlineImport.MatchString(entry) {
		return true
	}
	for _, name := range w.Task.ExcludeExtensions {
		for _, form := range []string{"EXTENSION - " + name + " ", "COMMENT - EXTENSION " + name + " "} {
			if strings.HasPrefix(entry+" ", form) {
				return true
			}
		}
	}
	return false
}

// stream is a part of the data that goes over one connection.
type stream struct {
	args  []string
	bytes int64
}

// streams are the large tables, each on its own, and all the rest; the largest first.
func (w *Worker) streams(d Database, args []string) []stream {
	least := w.LargeTable
	if least == 0 {
		least = largeTable
	}
	rest := stream{args: append(slices.Clone(args), "--section=data"), bytes: d.dataBytes()}
	if w.Task.Connections < 2 {
		return []stream{rest}
	}
	var all []stream
	for _, t := range d.large(least) {
		name := quote(t.Schema) + "." + quote(t.Name)
		all = append(all, stream{args: append(slices.Clone(args), "--section=data", "--table="+name), bytes: t.Bytes})
		rest.args = append(rest.args, "--exclude-table-data="+name)
		rest.bytes -= t.Bytes
	}
	all = append(all, rest)
	slices.SortStableFunc(all, func(a, b stream) int { return int(min(max(b.bytes-a.bytes, -1), 1)) })
	return all
}

func (w *Worker) copyData(ctx context.Context, source *source, d Database, args []string, meter *meter) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.Task.Connections)
	for _, part := range w.streams(d, args) {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return w.copyStream(ctx, source, d, part, meter)
		})
	}
	return group.Wait()
}

// copyStream runs pg_dump and pg_restore with a pipe between them.
func (w *Worker) copyStream(ctx context.Context, source *source, d Database, part stream, meter *meter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dump := command(ctx, source.environment(d.Name), w.program("pg_dump"), part.args...)
	restore := command(ctx, w.targetEnvironment(), w.program("pg_restore"), "--exit-on-error", "--no-password", "--dbname="+conninfo(d.Name), "--verbose")
	from, err := dump.StdoutPipe()
	if err != nil {
		return err
	}
	to, err := restore.StdinPipe()
	if err != nil {
		return err
	}
	dumpSaid, restoreSaid := &said{}, &said{each: meter.tableLine}
	dump.Stderr, restore.Stderr = dumpSaid, restoreSaid
	if err := restore.Start(); err != nil {
		return err
	}
	if err := dump.Start(); err != nil {
		cancel()
		return errors.Join(err, restore.Wait())
	}
	progress := meter.part(part.bytes)
	_, copied := io.CopyBuffer(struct{ io.Writer }{to}, &counted{from: from, add: progress.add}, make([]byte, 256<<10))
	if copied != nil {
		cancel() // whoever is left would wait
	}
	// Only a pg_dump that has ended well has said all: a pg_restore whose input ends early fails, and nothing else is taken for the end.
	dumped := dump.Wait()
	closed := to.Close()
	restored := restore.Wait()
	switch {
	case copied != nil && restored != nil: // pg_restore has given up, and pg_dump writes to nobody
		return restoreSaid.explain("pg_restore", restored)
	case dumped != nil:
		return dumpSaid.explain("pg_dump", dumped)
	case restored != nil:
		return restoreSaid.explain("pg_restore", restored)
	case copied != nil:
		return copied
	}
	progress.complete()
	if errors.Is(closed, os.ErrClosed) {
		closed = nil
	}
	return closed
}

// counted says how much was read.
type counted struct {
	from io.Reader
	add  func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.add(int64(n))
	return n, err
}

func command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a program, and has each line that it says on standard error looked at.
func run(ctx context.Context, env []string, each func(string), name string, args ...string) error {
	cmd := command(ctx, env, name, args...)
	errs := &said{each: each}
	cmd.Stderr = errs
	if err := cmd.Run(); err != nil {
		return errs.explain(filepath.Base(name), err)
	}
	return nil
}

func output(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := command(ctx, env, name, args...)
	errs := &said{}
	cmd.Stderr = errs
	out, err := cmd.Output()
	if err != nil {
		return nil, errs.explain(filepath.Base(name), err)
	}
	return out, nil
}

// said keeps what a program says of its errors, and leaves out the rows and statements that it quotes.
type said struct {
	each func(string)

	mu      sync.Mutex
	partial string
	errors  []string
}

const mostErrors = 6

// Write takes a part of the output.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.partial + string(p)
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			s.partial = line[:min(len(line), bufio.MaxScanTokenSize)]
			return len(p), nil
		}
		s.take(line)
		text = rest
	}
}

func (s *said) take(line string) {
	if s.each != nil {
		s.each(line)
	}
	for _, kind := range []string{": error: ", ": fatal: ", "from TOC entry", "ERROR: ", "HINT: "} {
		if strings.Contains(line, kind) && !strings.HasPrefix(line, "DETAIL") && !strings.HasPrefix(line, "CONTEXT") && len(s.errors) < mostErrors {
			s.errors = append(s.errors, strings.TrimSpace(line))
			return
		}
	}
}

func (s *said) explain(program string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errors) == 0 {
		return fmt.Errorf("%s: %w", program, err)
	}
	return fmt.Errorf("%s: %w: %s", program, err, strings.Join(s.errors, " "))
}
