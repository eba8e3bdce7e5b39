package replicate

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
)

// Position is how much of the WAL a server has.
type Position struct {
	// Replica: it is in recovery.
	Replica bool
	// Timeline and LSN of the end of what it has on disk. Both are those of its history: WAL that a later timeline has in
	// common with its ancestor is the ancestor's.
	Timeline uint32
	LSN      postgres.LSN
	// Replayed by a replica.
	Replayed postgres.LSN
	// Settled: a replica has read all of the WAL on its disk. Before that it may have more than LSN says, and must neither
	// be promoted nor be taken for one that has less than another.
	Settled bool
	// Paused: a replica replays nothing, until somebody lets it continue.
	Paused bool
	// Waiting: a delayed replica has WAL that it is not to replay yet. It asks for no more before it has replayed that.
	Waiting bool
	// DelaySeconds is how late a replica replays, by its own settings.
	DelaySeconds int64
	// Streaming from Upstream, a pod.
	Streaming bool
	Upstream  string
}

// LocalPosition asks the server of this pod, in a session of the superuser.
func LocalPosition(ctx context.Context, conn *pgx.Conn) (Position, error) {
	var replica bool
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&replica); err != nil {
		return Position{}, err
	}
	if replica {
		return replicaPosition(ctx, conn)
	}
	var timeline, lsn string
	err := conn.QueryRow(ctx, `SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), pg_current_wal_flush_lsn()::text`).Scan(&timeline, &lsn)
	if err != nil {
		return Position{}, err
	}
	p := Position{Settled: true}
	if _, err := fmt.Sscanf(timeline, "%08X", &p.Timeline); err != nil {
		return Position{}, fmt.Errorf("timeline %q: %w", timeline, err)
	}
	p.LSN, err = postgres.ParseLSN(lsn)
	p.Replayed = p.LSN
	return p, err
}

// What was received may be less than what was replayed: after a start, and at a new timeline, a replica receives the last
// segment from its beginning again. It asks for WAL only when it has replayed all that was on disk, and so what was
// received and what was replayed are all that there is once it has asked. Without anybody to ask it waits between two looks.
//
// A receiver calls itself streaming before it has been told whether it may, as where its slot is missing; the two times are
// one until the first message came.
const replicaQuery = `SELECT coalesce(pg_last_wal_receive_lsn(), '0/0')::text, coalesce(pg_last_wal_replay_lsn(), '0/0')::text,
	pg_last_wal_receive_lsn() IS NOT NULL OR EXISTS (SELECT FROM pg_stat_activity
		WHERE backend_type = 'startup' AND wait_event IN ('RecoveryWalStream', 'RecoveryRetrieveRetryInterval')),
	coalesce(receiver.status = 'streaming' AND receiver.last_msg_send_time <> receiver.last_msg_receipt_time, false), coalesce(receiver.sender_host, ''),
	pg_size_bytes(current_setting('wal_segment_size')), (SELECT timeline_id FROM pg_control_checkpoint()),
	CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() = 'paused' ELSE false END,
	EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryApplyDelay'),
	extract(epoch FROM current_setting('recovery_min_apply_delay')::interval)::bigint
	FROM (VALUES (1)) AS one LEFT JOIN pg_stat_wal_receiver AS receiver ON true`

func replicaPosition(ctx context.Context, conn *pgx.Conn) (Position, error) {
	p := Position{Replica: true}
	var received, replayed, host string
	var segSize, timeline int64
	err := conn.QueryRow(ctx, replicaQuery).Scan(&received, &replayed, &p.Settled, &p.Streaming, &host, &segSize, &timeline, &p.Paused, &p.Waiting, &p.DelaySeconds)
	if err != nil {
		return Position{}, err
	}
	if p.LSN, err = postgres.ParseLSN(received); err != nil {
		return Position{}, err
	}
	if p.Replayed, err = postgres.ParseLSN(replayed); err != nil {
		return Position{}, err
	}
	p.LSN = max(p.LSN, p.Replayed)
	p.Upstream, _, _ = strings.Cut(host, ".")
	p.Timeline, err = timelineAt(ctx, conn, p.LSN, uint64(segSize), uint32(timeline))
	return p, err
}

// Receivers are the processes that receive WAL for this replica, and whether it is told to follow anybody. The session has to be a new
// one: it has the settings of the postmaster, which has passed them on to all that were there before. So if the session isn't told to
// follow anybody, no receiver will be started.
func Receivers(ctx context.Context, conn *pgx.Conn) (follows bool, pids []int, err error) {
	err = conn.QueryRow(ctx, `SELECT current_setting('primary_conninfo') <> '',
		array(SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver')`).Scan(&follows, &pids)
	return follows, pids, err
}

// timelineAt is the timeline on which the last byte before lsn was written. The server does not tell, but names its
// segments after it.
func timelineAt(ctx context.Context, conn *pgx.Conn, lsn postgres.LSN, segSize uint64, checkpoint uint32) (uint32, error) {
	name := postgres.SegmentBefore(max(1, checkpoint), lsn, segSize).Name()
	var found *string
	err := conn.QueryRow(ctx, `SELECT max(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' AND substr(name, 9) = $1`, name[8:]).Scan(&found)
	if err != nil {
		return 0, err
	}
	if found != nil {
		name = *found
	}
	segment, err := postgres.ParseSegment(name, segSize)
	if err != nil {
		return 0, err
	}
	history, err := readHistory(ctx, conn, segment.Timeline)
	if err != nil {
		return 0, err
	}
	return history.At(lsn.Add(-1)), nil
}

// readHistory reads the history of a timeline that the server has in pg_wal.
func readHistory(ctx context.Context, conn *pgx.Conn, timeline uint32) (postgres.TimelineHistory, error) {
	if timeline <= 1 {
		return postgres.TimelineHistory{Timeline: timeline}, nil
	}
	var content []byte
	err := conn.QueryRow(ctx, "SELECT pg_read_binary_file($1)", "pg_wal/"+postgres.HistoryName(timeline)).Scan(&content)
	if err != nil {
		return postgres.TimelineHistory{}, err
	}
	return postgres.ParseTimelineHistory(timeline, content)
}

// Follower is a replica, as its primary sees it.
type Follower struct {
	Pod string
	// Address that it connects from.
	Address string
	// State of its sender: startup, catchup, streaming.
	State string
	// Flushed is what it has on disk, perhaps up to the middle of a record, and Replayed what it has applied of that.
	Flushed, Replayed postgres.LSN
}

// Streaming says that the replica is level but for what is on its way.
func (f Follower) Streaming() bool { return f.State == "streaming" }

// Written is how far a primary has written WAL, on which timeline, and the last checkpoint in its control file.
type Written struct {
	LSN                postgres.LSN
	Timeline           int64
	Checkpoint         postgres.LSN
	CheckpointTimeline int64
}

const writtenQuery = `SELECT pg_current_wal_lsn()::text, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int,
	checkpoint_lsn::text, timeline_id FROM pg_control_checkpoint()`

// Followers are the replicas that are connected to this primary, and how far it has written WAL. Of a replica that came
// again before its former connection was given up, the newer one counts. Clones are none.
func Followers(ctx context.Context, conn *pgx.Conn) (written Written, followers []Follower, err error) {
	var lsn, checkpoint string
	if err := conn.QueryRow(ctx, writtenQuery).Scan(&lsn, &written.Timeline, &checkpoint, &written.CheckpointTimeline); err != nil {
		return written, nil, err
	}
	if written.LSN, err = postgres.ParseLSN(lsn); err != nil {
		return written, nil, err
	}
	if written.Checkpoint, err = postgres.ParseLSN(checkpoint); err != nil {
		return written, nil, err
	}
	rows, err := conn.Query(ctx, `SELECT DISTINCT ON (application_name) application_name, coalesce(host(client_addr), ''), coalesce(state, ''), coalesce(flush_lsn, '0/0')::text,
		coalesce(replay_lsn, '0/0')::text FROM pg_stat_replication WHERE usename = $1 AND application_name <> ALL ($2::text[]) AND state IS DISTINCT FROM 'backup'
		ORDER BY application_name, backend_start DESC`, postgres.RoleReplication, cloneNames)
	if err != nil {
		return written, nil, err
	}
	followers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Follower, err error) {
		var flushed, replayed string
		if err := row.Scan(&f.Pod, &f.Address, &f.State, &flushed, &replayed); err != nil {
			return f, err
		}
		if f.Flushed, err = postgres.ParseLSN(flushed); err != nil {
			return f, err
		}
		f.Replayed, err = postgres.ParseLSN(replayed)
		return f, err
	})
	return written, followers, err
}

// cloneNames are what the programs call themselves that receive WAL for a clone.
var cloneNames = []string{"pg_basebackup", "pg_receivewal"}
