package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/cmd/agent/internal/child"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	iniFile  = "pgbouncer.ini"
	userFile = "userlist.txt"
	// clientCAFile has what the certificates of clients are verified with.
	clientCAFile = "client-ca.crt"
	// commandTime is how long PgBouncer may take to carry out a command of its console.
	commandTime = 5 * time.Second
	// settleTime is for how long a pause or a change of servers waits for logins to end, and settleInterval how often it looks. settleShortly is for
	// a server that may be dead: its logins may never end.
	settleTime, settleShortly, settleInterval = 2 * time.Second, 100 * time.Millisecond, time.Millisecond
	startPoll                                 = 20 * time.Millisecond
)

// bouncer is PgBouncer's process. Any goroutine may use it.
type bouncer struct {
	paths    Paths
	command  []string
	password string
	log      *slog.Logger
	crashes  *crashes

	process *exec.Cmd
	ended   chan struct{}
	err     error // of its end

	mu      sync.Mutex
	session *pgconn.PgConn // of the console
	spare   *pgconn.PgConn // another one, for the next pause
}

// start runs PgBouncer on a configuration, and waits until its console answers.
func (b *bouncer) start(ctx context.Context, config agentapi.PoolerConfig, servers []place) error {
	users := fmt.Sprintf("%q %q\n", console, b.password)
	if err := os.WriteFile(filepath.Join(b.paths.RunDir, userFile), []byte(users), 0o640); err != nil {
		return err
	}
	if err := b.write(config, servers); err != nil {
		return err
	}
	if err := raiseFileLimit(); err != nil {
		b.log.Warn("PgBouncer can have fewer clients than the kernel allows", "error", err)
	}
	b.process = exec.Command(b.command[0], append(b.command[1:], filepath.Join(b.paths.RunDir, iniFile))...)
	b.process.Stdout, b.process.Stderr = os.Stdout, b.crashes
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // whoever is paused isn't left so
	b.ended = make(chan struct{})
	if err := child.Start(b.process, func(err error) {
		b.err = err
		close(b.ended)
	}); err != nil {
		return fmt.Errorf("start PgBouncer: %w", err)
	}
	for {
		err := b.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-b.ended:
			return fmt.Errorf("PgBouncer ended at once: %w", orNil(b.err))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(startPoll):
		}
	}
}

// raiseFileLimit has programs that start from now on open as many files as the kernel lets them. A container runtime may start the agent with a
// limit of 1,024, and each client takes one. The Go runtime raises the limit for the agent itself, but not for its children.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

func orNil(err error) error {
	if err == nil {
		return errors.New("it gave no reason")
	}
	return err
}

// write replaces the configuration, each file in one step.
func (b *bouncer) write(config agentapi.PoolerConfig, servers []place) error {
	return errors.Join(b.replace(clientCAFile, config.ClientTLS.CA), b.replace(iniFile, render(config, b.paths, servers)))
}

func (b *bouncer) replace(file, content string) error {
	path := filepath.Join(b.paths.RunDir, file)
	if err := os.WriteFile(path+".new", []byte(content), 0o640); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// connect opens a session of the console.
func (b *bouncer) connect(ctx context.Context) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port = b.paths.RunDir, uint16(b.paths.Port)
	config.User, config.Password, config.Database = console, b.password, "pgbouncer"
	config.Fallbacks, config.ConnectTimeout = nil, commandTime
	return pgconn.ConnectConfig(ctx, config)
}

// rows is the answer to a command.
func (b *bouncer) rows(ctx context.Context, command string) ([]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil || b.session.IsClosed() {
		session, err := b.connect(ctx)
		if err != nil {
			return nil, err
		}
		b.session = session
	}
	results, err := b.session.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var all []map[string]string
	for _, result := range results {
		for _, values := range result.Rows {
			row := map[string]string{}
			for i, field := range result.FieldDescriptions {
				row[field.Name] = string(values[i])
			}
			all = append(all, row)
		}
	}
	return all, nil
}

func (b *bouncer) do(ctx context.Context, command string) error {
	_, err := b.rows(ctx, command)
	return err
}

// answers says whether the console answers.
func (b *bouncer) answers(ctx context.Context) error { return b.do(ctx, "SHOW VERSION") }

// prepareTime is how long a session for the next pause may take. The loop waits for it, and has to hear of a handover meanwhile.
const prepareTime = 500 * time.Millisecond

// prepare opens a session for the next pause, beside the one for commands: where clients have taken all file descriptors by then, there is no other one.
func (b *bouncer) prepare(ctx context.Context) error {
	b.mu.Lock()
	there := b.spare != nil && !b.spare.IsClosed()
	b.mu.Unlock()
	if there {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	session, err := b.connect(ctx)
	if err != nil {
		return fmt.Errorf("a session of the console for the next pause: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = session
	return nil
}

// pause has what clients ask for kept from now on. The function that it returns waits until no transaction is open any more, or ctx ends. It
// takes a session that is open for it, as a login takes time, and doesn't cancel but close it: PgBouncer takes a cancel request of whoever waits for
// one to resume. Logins that are under way may end first, within settle.
func (b *bouncer) pause(ctx context.Context, settle time.Duration, poolSize int) (drained func() error, err error) {
	limited, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	session, err := b.take(limited)
	if err != nil {
		return nil, err
	}
	raw, err := session.Hijack()
	if err != nil {
		return nil, err
	}
	if err := b.settle(limited, settle, poolSize); err != nil {
		return nil, errors.Join(err, raw.Conn.Close())
	}
	raw.Frontend.Send(&pgproto3.Query{String: "PAUSE"})
	if err := raw.Frontend.Flush(); err != nil {
		return nil, errors.Join(err, raw.Conn.Close())
	}
	return func() error {
		defer raw.Conn.Close()
		defer context.AfterFunc(ctx, func() { _ = raw.Conn.Close() })()
		return answered(raw)
	}, nil
}

// take takes the session that is there for a pause.
func (b *bouncer) take(ctx context.Context) (*pgconn.PgConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	session := b.spare
	b.spare = nil
	if session == nil || session.IsClosed() {
		return b.connect(ctx)
	}
	return session, nil
}

// answered waits for the end of a command.
func answered(raw *pgconn.HijackedConn) error {
	for {
		message, err := raw.Frontend.Receive()
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("PAUSE: %s", m.Message)
		case *pgproto3.ReadyForQuery:
			return nil
		}
	}
}

// resume lets clients continue. One that is not paused is left as it is.
func (b *bouncer) resume(ctx context.Context) error {
	err := b.do(ctx, "RESUME")
	if err != nil && strings.Contains(err.Error(), "not paused") {
		return nil
	}
	return err
}

// isPaused says whether clients are kept waiting.
func (b *bouncer) isPaused(ctx context.Context) (bool, error) {
	rows, err := b.rows(ctx, "SHOW STATE")
	for _, row := range rows {
		if row["key"] == "paused" && row["value"] == "yes" {
			return true, err
		}
	}
	return false, err
}

// hasClients says whether anybody is connected besides the console, as far as it is known.
func (b *bouncer) hasClients(ctx context.Context) bool {
	pools, err := b.rows(ctx, "SHOW POOLS")
	if err != nil {
		return true
	}
	for _, pool := range pools {
		for name, value := range pool {
			if strings.HasPrefix(name, "cl_") && value != "0" && pool["database"] != "pgbouncer" {
				return true
			}
		}
	}
	return false
}

// settle waits until no login at a server is under way or about to begin, but not for long. A pause or a change of servers would break the login
// off, PgBouncer would count it as failed, and answer clients with an error until another has succeeded.
func (b *bouncer) settle(ctx context.Context, limit time.Duration, poolSize int) error {
	pending := logins{size: poolSize, looks: map[string]int{}}
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		pools, err := b.rows(ctx, "SHOW POOLS")
		if err != nil || !pending.in(pools) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleInterval):
		}
	}
	return nil
}

// logins tells, look by look, whether one is under way or about to begin.
type logins struct {
	size  int            // of a pool, if nothing else limits it
	looks map[string]int // at pools whose clients have waited without a login since
}

// settleLooks are more than PgBouncer needs to open a connection that a client waits for. If there is none by then, a limit of the database or the
// user keeps it from that.
const settleLooks = 20

func (l *logins) in(pools []map[string]string) (pending bool) {
	for _, pool := range pools {
		name, size := pool["user"]+"@"+pool["database"], l.size
		if pool["database"] == lookupDatabase {
			size = lookupPool
		}
		switch {
		case pool["sv_login"] != "0":
			l.looks[name], pending = 0, true
		case pool["cl_waiting"] != "0" && serversOf(pool) < size && l.looks[name] < settleLooks:
			l.looks[name]++
			pending = true
		}
	}
	return pending
}

// serversOf counts the connections of a pool to the server.
func serversOf(pool map[string]string) (servers int) {
	for name, value := range pool {
		if count, err := strconv.Atoi(value); err == nil && strings.HasPrefix(name, "sv_") {
			servers += count
		}
	}
	return servers
}

// use sends clients to these servers from now on. A connection to another one is closed once the transaction on it has ended.
func (b *bouncer) use(ctx context.Context, config agentapi.PoolerConfig, servers []place) error {
	if err := b.write(config, servers); err != nil {
		return err
	}
	return b.do(ctx, "RELOAD")
}
