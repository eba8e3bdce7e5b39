package importjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/agent/internal/pgprogram"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
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
	if err := pgprogram.Run(ctx, source.environment(d.Name), nil, w.program("pg_dump"), append(args, "--section=pre-data", "--section=post-data", "--file="+path)...); err != nil {
		return err
	}
	list, err := w.contents(ctx, path)
	if err != nil {
		return err
	}
	restore := []string{"--exit-on-error", "--no-password", "--no-tablespaces", "--dbname=" + "dbname=" + postgres.QuoteConnInfo(d.Name), "--use-list=" + list}
	if err := pgprogram.Run(ctx, w.targetEnvironment(), nil, w.program("pg_restore"), append(restore, "--section=pre-data", path)...); err != nil {
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
	out, err := pgprogram.Output(ctx, w.targetEnvironment(), w.program("pg_restore"), "--list", "--section=post-data", path)
	if err != nil {
		return err
	}
	meter.beginIndexes(d, len(pgprogram.Entries(out)))
	built := func(line string) {
		if strings.Contains(line, "finished item") || strings.Contains(line, ": creating ") {
			meter.indexBuilt()
		}
	}
	return pgprogram.Run(ctx, w.targetEnvironment(), built, w.program("pg_restore"),
		append(restore, "--section=post-data", "--verbose", fmt.Sprintf("--jobs=%d", w.Task.Connections), path)...)
}

// contents writes what of an archive is restored, and returns where.
func (w *Worker) contents(ctx context.Context, path string) (list string, err error) {
	out, err := pgprogram.Output(ctx, w.targetEnvironment(), w.program("pg_restore"), "--list", path)
	if err != nil {
		return "", err
	}
	kept := slices.DeleteFunc(pgprogram.Entries(out), w.staysBehind)
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
	dump := pgprogram.Command(ctx, source.environment(d.Name), w.program("pg_dump"), part.args...)
	restore := pgprogram.Command(ctx, w.targetEnvironment(), w.program("pg_restore"), "--exit-on-error", "--no-password", "--dbname=dbname="+postgres.QuoteConnInfo(d.Name), "--verbose")
	from, err := dump.StdoutPipe()
	if err != nil {
		return err
	}
	to, err := restore.StdinPipe()
	if err != nil {
		return err
	}
	dumpSaid, restoreSaid := &pgprogram.Said{}, &pgprogram.Said{Each: meter.tableLine}
	dump.Stderr, restore.Stderr = dumpSaid, restoreSaid
	if err := restore.Start(); err != nil {
		return err
	}
	if err := dump.Start(); err != nil {
		cancel()
		return errors.Join(err, restore.Wait())
	}
	progress := meter.part(part.bytes)
	_, copied := io.CopyBuffer(struct{ io.Writer }{to}, &pgprogram.Counted{From: from, Add: progress.add}, make([]byte, 256<<10))
	if copied != nil {
		cancel() // whoever is left would wait
	}
	// Only a pg_dump that has ended well has said all: a pg_restore whose input ends early fails, and nothing else is taken for the end.
	dumped := dump.Wait()
	closed := to.Close()
	restored := restore.Wait()
	switch {
	case copied != nil && restored != nil: // pg_restore has given up, and pg_dump writes to nobody
		return restoreSaid.Explain("pg_restore", restored)
	case dumped != nil:
		return dumpSaid.Explain("pg_dump", dumped)
	case restored != nil:
		return restoreSaid.Explain("pg_restore", restored)
	case copied != nil:
		return copied
	}
	progress.complete()
	if errors.Is(closed, os.ErrClosed) {
		closed = nil
	}
	return closed
}
