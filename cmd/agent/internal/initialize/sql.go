package initialize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/agentapi"
)

// Reasons of Jobs whose SQL did not run.
const (
	ReasonSQLMissing = "SQLMissing"
	ReasonSQLFailed  = "SQLFailed"
)

const (
	sqlPort = 5432
	// onlyHere: the socket's folder belongs to this container alone.
	onlyHere = "local all all trust\n"
)

// runSQL makes the application's role and database on a server that nobody else reaches, and runs the SQL there. Whoever may write a
// ConfigMap may be nobody who may do anything to the cluster, so it runs in a session that has logged in as the application's role:
// there is no way back to a superuser in it.
func (w Worker) runSQL(ctx context.Context, task agentapi.InitJob, binDir, pgdata string) (err error) {
	texts, err := w.readSQL(task.SQL)
	if err != nil {
		return err
	}
	found, err := w.findExtensions(task.MajorVersion)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sql")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stop, err := w.start(ctx, binDir, pgdata, dir, found.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	server := local.Server{SocketDir: dir, Port: sqlPort}
	wanted := roles.Wanted{Major: task.MajorVersion, Database: task.Database, Owner: task.Owner}
	if err := roles.Ensure(ctx, server, wanted); err != nil {
		return err
	}
	for i, text := range texts {
		if err := execute(ctx, dir, wanted, text); err != nil {
			return failed(task.SQL[i], text, err)
		}
	}
	return nil
}

// fromClient is what only a program such as psql can answer; a server would wait for it forever.
var fromClient = regexp.MustCompile(`(?i)\bfrom\s+stdin\b`)

// readSQL reads all of it before any runs.
func (w Worker) readSQL(files []agentapi.SQLFile) (texts []string, err error) {
	path := w.SQLPath
	if path == nil {
		path = agentapi.SQLPath
	}
	for i, file := range files {
		text, err := os.ReadFile(path(i, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, job.Fail(ReasonSQLMissing, fmt.Errorf("ConfigMap %s with the key %s of spec.bootstrap.initdb.postInitSQL doesn't exist: create it", file.ConfigMap, file.Key))
		}
		if err != nil {
			return nil, err
		}
		if fromClient.Match(text) {
			return nil, job.Final(ReasonSQLFailed, fmt.Errorf("key %s of ConfigMap %s has COPY FROM STDIN, which needs a client: write INSERT, as pg_dump --inserts does", file.Key, file.ConfigMap))
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// findExtensions of mounted images. Another attempt would find the same.
func (w Worker) findExtensions(major int) (extensions.Folders, error) {
	found, err := extensions.Find(w.ExtensionsDir, major)
	if err != nil {
		return found, job.Final(ReasonBadImage, err)
	}
	return found, nil
}

// start runs a server whose socket is in dir, with more options, until stop is called.
func (w Worker) start(ctx context.Context, binDir, pgdata, dir, more string) (stop func(context.Context) error, err error) {
	hba := filepath.Join(dir, "pg_hba.conf")
	if err := os.WriteFile(hba, []byte(onlyHere), 0o600); err != nil {
		return nil, err
	}
	ctl := filepath.Join(binDir, "pg_ctl")
	log := filepath.Join(dir, "server.log")
	options := fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories=%s -c hba_file=%s -c port=%d -c huge_pages=off -c lc_messages=C %s", dir, hba, sqlPort, more)
	if _, err := w.Run(ctx, ctl, "-D", pgdata, "-w", "-t", "600", "-l", log, "-o", options, "start"); err != nil {
		said, _ := os.ReadFile(log) // what there is of it
		return nil, fmt.Errorf("start a server on the new data: %w: %s", err, strings.Join(strings.Fields(string(said)), " "))
	}
	return func(ctx context.Context) error {
		_, err := w.Run(ctx, ctl, "-D", pgdata, "-w", "-t", "600", "-m", "fast", "stop")
		return err
	}, nil
}

// execute runs SQL in a session of the owner.
func execute(ctx context.Context, dir string, as roles.Wanted, text string) error {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return err
	}
	config.Host, config.Port, config.Fallbacks = dir, sqlPort, nil
	config.User, config.Password, config.Database = as.Owner, "", as.Database
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, text).ReadAll()
	return err
}

// failed says in which line the server found what it does not do. Another attempt would end the same.
func failed(file agentapi.SQLFile, text string, err error) error {
	fault := &pgconn.PgError{}
	if !errors.As(err, &fault) {
		return err
	}
	where := fmt.Sprintf("key %s of ConfigMap %s", file.Key, file.ConfigMap)
	if runes := []rune(text); fault.Position > 0 && int(fault.Position) <= len(runes) {
		where += fmt.Sprintf(", line %d", strings.Count(string(runes[:fault.Position]), "\n")+1)
	}
	return job.Final(ReasonSQLFailed, fmt.Errorf("%s: %w: correct it; it runs as the role of the application, which is not a superuser", where, local.Plain(err)))
}
