package findings

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
)

// checkpointCounters of servers before and from version 17.
const (
	checkpointCounters   = `(SELECT ARRAY[checkpoints_timed, checkpoints_req] FROM pg_stat_bgwriter)`
	checkpointCounters17 = `(SELECT ARRAY[num_timed, num_requested] FROM pg_stat_checkpointer)`
)

// The offset of a replica's clock is what its last report says of the time, as it was when that came: one that is behind can't be told from a
// report that is old, but by as much as two reports may lie apart.
const question = `SELECT c.n[1], c.n[2], d.files, d.bytes, a.workers, current_setting('autovacuum_max_workers')::int8, a.clients,
		current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8 - coalesce(current_setting('reserved_connections', true), '0')::int8,
		x.age, current_setting('autovacuum_freeze_max_age')::int8, x.name, coalesce(s.name, ''), coalesce(s.bytes, 0), pg_size_bytes(current_setting('max_wal_size')), coalesce(s.active, false),
		coalesce((SELECT string_agg(slot_name::text, ', ' ORDER BY slot_name) FROM pg_replication_slots WHERE slot_type = 'logical' AND starts_with(slot_name::text, '` + logicalslot.AsidePrefix + `')), ''),
		d.failures, coalesce(w.name, ''), coalesce(r.name, ''), coalesce(r.seconds, 0)
	FROM (SELECT %s AS n) AS c,
		(SELECT coalesce(sum(temp_files), 0)::int8 AS files, coalesce(sum(temp_bytes), 0)::int8 AS bytes, coalesce(sum(checksum_failures), 0)::int8 AS failures FROM pg_stat_database) AS d,
		(SELECT count(*) FILTER (WHERE backend_type = 'autovacuum worker') AS workers, count(*) FILTER (WHERE backend_type = 'client backend') AS clients FROM pg_stat_activity) AS a,
		(SELECT datname::text AS name, age(datfrozenxid)::int8 AS age FROM pg_database ORDER BY 2 DESC LIMIT 1) AS x
		LEFT JOIN (SELECT slot_name::text AS name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 AS bytes, active
			FROM pg_replication_slots WHERE restart_lsn IS NOT NULL ORDER BY 2 DESC LIMIT 1) AS s ON true
		LEFT JOIN (SELECT coalesce(datname::text, 'of shared catalogs') AS name FROM pg_stat_database WHERE checksum_failures > 0 ORDER BY checksum_failures DESC LIMIT 1) AS w ON true
		LEFT JOIN (SELECT name, CASE WHEN off >= 0 THEN off WHEN pause > 0 THEN least(off + pause, 0) ELSE 0 END AS seconds
			FROM (SELECT application_name AS name, extract(epoch FROM reply_time - clock_timestamp())::float8 AS off,
				extract(epoch FROM current_setting('wal_receiver_status_interval')::interval)::float8 AS pause
				FROM pg_stat_replication WHERE state = 'streaming' AND usename = 'howdah_replication' AND reply_time IS NOT NULL) AS o
			ORDER BY abs(off) DESC LIMIT 1) AS r ON true`

// Look asks a primary of this major version.
func Look(ctx context.Context, conn *pgx.Conn, major int, now time.Time) (Sample, error) {
	counters := checkpointCounters
	if major >= 17 {
		counters = checkpointCounters17
	}
	s := Sample{At: now}
	var seconds float64
	err := conn.QueryRow(ctx, fmt.Sprintf(question, counters)).Scan(&s.CheckpointsTimed, &s.CheckpointsRequested, &s.TempFiles, &s.TempBytes, &s.Workers, &s.MaxWorkers,
		&s.Sessions, &s.MaxSessions, &s.XIDAge, &s.MaxXIDAge, &s.XIDDatabase, &s.Slot, &s.SlotBytes, &s.LeastSlotBytes, &s.SlotActive,
		&s.SlotsSetAside, &s.ChecksumFailures, &s.ChecksumDatabase, &s.ClockInstance, &seconds)
	s.ClockAhead = time.Duration(seconds * float64(time.Second))
	return s, err
}
