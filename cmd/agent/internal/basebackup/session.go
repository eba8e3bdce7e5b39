package basebackup

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	// pingInterval keeps the session from looking dead to what is between here and the server, and finds out early
	// that it is: with it the server leaves the backup mode.
	pingInterval = 10 * time.Second
	pingTimeout  = 30 * time.Second
	closeTimeout = 5 * time.Second
)

// session is the one session in which a backup starts and stops.
type session struct {
	conn  *pgx.Conn
	label string
	// lost is told when the session has broken during the copy.
	lost context.CancelCauseFunc

	mu     sync.Mutex // one question at a time
	stopIt context.CancelFunc
	pinger sync.WaitGroup
}

// facts are what a server says of itself.
type facts struct {
	version          postgres.Version
	systemIdentifier string
	dataDirectory    string
	started          time.Time
	checksums        bool
	walSegmentSize   uint64
	blockSize        int64 // bytes
	fileBlocks       int64 // in a file of a relation
	inRecovery       bool
}

func (s *session) facts(ctx context.Context) (facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var f facts
	var number int
	var segment int64
	err := s.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int,
		(SELECT system_identifier::text FROM pg_control_system()),
		current_setting('data_directory'), pg_postmaster_start_time(), current_setting('data_checksums') = 'on',
		(SELECT bytes_per_wal_segment::bigint FROM pg_control_init()), (SELECT database_block_size::bigint FROM pg_control_init()),
		(SELECT blocks_per_segment::bigint FROM pg_control_init()), pg_is_in_recovery()`).
		Scan(&number, &f.systemIdentifier, &f.dataDirectory, &f.started, &f.checksums, &segment, &f.blockSize, &f.fileBlocks, &f.inRecovery)
	if err != nil {
		return facts{}, fmt.Errorf("ask the server what it is: %w", plain(err))
	}
	f.version, f.walSegmentSize = postgres.VersionFromNum(number), uint64(segment)
	return f, nil
}

// start enters the backup mode, with an immediate checkpoint, and keeps the session alive from then on.
func (s *session) start(ctx context.Context) (backup.Started, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var started backup.Started
	if err := s.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&started.Time); err != nil {
		return backup.Started{}, plain(err)
	}
	call, _ := s.functions()
	var lsn, segment string
	if err := s.conn.QueryRow(ctx, "SELECT lsn::text, pg_walfile_name(lsn) FROM "+call+" AS lsn", s.label).Scan(&lsn, &segment); err != nil {
		return backup.Started{}, plain(err)
	}
	var err error
	if started.LSN, err = postgres.ParseLSN(lsn); err != nil {
		return backup.Started{}, err
	}
	timeline, err := strconv.ParseUint(segment[:min(8, len(segment))], 16, 32)
	if err != nil {
		return backup.Started{}, fmt.Errorf("pg_walfile_name says %q: %w", segment, err)
	}
	started.Timeline = uint32(timeline)
	s.keepAlive(ctx)
	return started, nil
}

// stop leaves the backup mode. On a primary that switches to a new segment, so that the last one can be archived.
func (s *session) stop(ctx context.Context) (backup.Stopped, error) {
	s.endPings()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, call := s.functions()
	var stopped backup.Stopped
	var lsn string
	err := s.conn.QueryRow(ctx, "SELECT lsn::text, labelfile, spcmapfile, clock_timestamp() FROM "+call).
		Scan(&lsn, &stopped.BackupLabel, &stopped.TablespaceMap, &stopped.Time)
	if err != nil {
		return backup.Stopped{}, plain(err)
	}
	stopped.LSN, err = postgres.ParseLSN(lsn)
	return stopped, err
}

// functions are the calls that start and stop a backup; PostgreSQL 15 renamed them.
func (s *session) functions() (start, stop string) {
	if version, err := postgres.ParseVersion(s.conn.PgConn().ParameterStatus("server_version")); err == nil && version.Major < 15 {
		return "pg_start_backup($1, true, false)", "pg_stop_backup(false, false)"
	}
	return "pg_backup_start($1, true)", "pg_backup_stop(false)"
}

// keepAlive pings until the backup stops, or says that the session is lost.
func (s *session) keepAlive(ctx context.Context) {
	ctx, s.stopIt = context.WithCancel(ctx)
	s.pinger.Go(func() {
		ticker := time.NewTicker(pingInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := s.ping(ctx); err != nil && ctx.Err() == nil {
				s.lost(fmt.Errorf("%w: %w", errSessionLost, plain(err)))
				return
			}
		}
	})
}

func (s *session) ping(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not bound to ctx, whose end would break the session in the middle of an answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	return s.conn.Ping(ctx)
}

func (s *session) endPings() {
	if s.stopIt != nil {
		s.stopIt()
		s.pinger.Wait()
	}
}

// close ends the session, and with it a backup mode that was not left.
func (s *session) close() {
	s.endPings()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx) // it is given up anyway
}
