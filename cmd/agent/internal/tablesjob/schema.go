package tablesjob

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/pgprogram"
	"howdah.dev/howdah/pkg/postgres"
)

// scripts are the SQL that comes before and after the rows, and how many statements the second one is about.
type scripts struct {
	before, after string
	indexes       int
}

// dump has pg_dump describe what is wanted, and pg_restore write it as SQL. No data is in any file.
func (w *Worker) dump(ctx context.Context, s *session, wanted []relation) (scripts, error) {
	connection, err := w.Copy.Connection()
	if err != nil {
		return scripts{}, err
	}
	dir, err := os.MkdirTemp(w.Scratch, "schema")
	if err != nil {
		return scripts{}, err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "archive")
	args := append(w.dumpArguments(wanted), "--file="+archive, "--dbname="+connection+" dbname="+postgres.QuoteConnInfo(w.Database))
	if err := pgprogram.Run(ctx, pgprogram.Environment(), nil, w.program("pg_dump"), args...); err != nil {
		return scripts{}, err
	}
	list, err := w.contents(ctx, s, archive, filepath.Join(dir, "contents"))
	if err != nil {
		return scripts{}, err
	}
	out := scripts{}
	if out.before, err = w.script(ctx, archive, list, "pre-data"); err != nil {
		return scripts{}, err
	}
	if out.after, err = w.script(ctx, archive, list, "post-data"); err != nil {
		return scripts{}, err
	}
	post, err := pgprogram.Output(ctx, pgprogram.Environment(), w.program("pg_restore"), "--list", "--use-list="+list, "--section=post-data", archive)
	out.indexes = len(pgprogram.Entries(post))
	return out, err
}

func (w *Worker) dumpArguments(wanted []relation) []string {
	args := []string{
		"--format=custom", "--compress=0", "--no-password", "--no-sync", "--section=pre-data", "--section=post-data", "--encoding=UTF8", "--lock-wait-timeout=5min",
		"--no-publications", "--no-subscriptions", "--no-tablespaces", "--no-security-labels", "--no-blobs",
		"--exclude-schema=howdah_*",
	}
	switch {
	case len(w.Task.Tables) > 0:
		for _, r := range wanted {
			if !r.Owned {
				args = append(args, "--table="+r.quoted())
			}
		}
	case w.Task.IntoSchema != "":
		args = append(args, "--schema="+postgres.QuoteIdentifier(w.Task.IntoSchema))
	default:
		for _, schema := range w.Task.Schemas {
			args = append(args, "--schema="+postgres.QuoteIdentifier(schema))
		}
	}
	return args
}

func (w *Worker) program(name string) string { return filepath.Join(w.BinDir, name) }

// contents writes what of an archive is restored, and returns where.
func (w *Worker) contents(ctx context.Context, s *session, archive, list string) (string, error) {
	out, err := pgprogram.Output(ctx, pgprogram.Environment(), w.program("pg_restore"), "--list", archive)
	if err != nil {
		return "", err
	}
	there, err := texts(ctx, s.target, "SELECT nspname::text FROM pg_catalog.pg_namespace")
	if err != nil {
		return "", err
	}
	kept := slices.DeleteFunc(pgprogram.Entries(out), func(line string) bool { return staysBehind(line, there) })
	return list, os.WriteFile(list, []byte(strings.Join(kept, "\n")+"\n"), 0o600)
}

// staysBehind: schemas that exist already, as they are; and what only a superuser may create, or what is no part of a schema. A line is:
// 215; 1259 16400 TABLE public events owner.
func staysBehind(line string, schemas []string) bool {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) < 4 {
		return false
	}
	entry := fields[3]
	for _, start := range []string{"EXTENSION ", "COMMENT - EXTENSION ", "EVENT TRIGGER ", "COMMENT - EVENT TRIGGER ", "DEFAULT ACL ", "PUBLICATION ", "SUBSCRIPTION ", "ACL pg_catalog "} {
		if strings.HasPrefix(entry, start) {
			return true
		}
	}
	for _, schema := range schemas {
		for _, start := range []string{"SCHEMA - " + schema + " ", "COMMENT - SCHEMA " + schema + " ", "ACL - SCHEMA " + schema + " "} {
			if strings.HasPrefix(entry, start) {
				return true
			}
		}
	}
	return false
}

func (w *Worker) script(ctx context.Context, archive, list, section string) (string, error) {
	args := []string{"--file=-", "--section=" + section, "--use-list=" + list, "--no-tablespaces"}
	if w.Task.OmitPrivileges {
		args = append(args, "--no-owner", "--no-privileges")
	}
	out, err := pgprogram.Output(ctx, pgprogram.Environment(), w.program("pg_restore"), append(args, archive)...)
	if err != nil {
		return "", err
	}
	return w.withLockTimeout(withoutRestrict(string(out))), nil
}

// withLockTimeout has the script wait for locks as long as the session does. Its first lines set that otherwise.
func (w *Worker) withLockTimeout(script string) string {
	return strings.Replace(script, "\nSET lock_timeout = 0;\n", fmt.Sprintf("\nSET lock_timeout = %d;\n", w.LockTimeout.Milliseconds()), 1)
}

// restrict stands above all SQL.
var restrict = regexp.MustCompile(`\A(?:--[^\n]*\n|\n)*(\\restrict ([A-Za-z0-9]+)\n)`)

// withoutRestrict removes the two commands to psql that a script begins and ends with. All else is SQL.
func withoutRestrict(script string) string {
	found := restrict.FindStringSubmatchIndex(script)
	if found == nil {
		return script
	}
	end := fmt.Sprintf("\n\\unrestrict %s\n", script[found[4]:found[5]])
	script = script[:found[2]] + script[found[3]:]
	if i := strings.LastIndex(script, end); i >= 0 {
		script = script[:i] + "\n" + script[i+len(end):]
	}
	return script
}
