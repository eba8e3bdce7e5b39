package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/howdah/pkg/agentapi"
)

var (
	checkTime      = describe("check_timestamp_seconds", "When a deep check of the agent ended last, in seconds since 1970; missing before its first turn, like howdah_check_failed.", "check")
	checkFailed    = describe("check_failed", "1 if the last run of a deep check failed, or could not reach what it checks.", "check")
	checkDamaged   = describe("check_damaged", "1 while pages or indexes of the instance are known to be damaged. Damage of a primary that only PostgreSQL has reported is in the finding ChecksumFailures.")
	checkedIndexes = describe("check_indexes", "Indexes of the present round through all databases, by result: checked; waiting for a check of their own at its end, because it takes long; or skipped, because it takes too long or somebody has locked them.", "result")
	checkRound     = describe("check_round_timestamp_seconds", "When the last round through the indexes of all databases ended, in seconds since 1970; 0: none has ended yet.")
	checkMissed    = describe("check_round_missed", "How many objects that round could not check, by kind: databases, or indexes of other databases.", "kind")
	clockAhead     = describe("check_clock_ahead_seconds", "How far the clock of the node is ahead of that of the API server, to about a second; negative: it is behind.")
)

// checks sends what the deep checks have seen.
func checks(c *agentapi.Checks, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	if c == nil {
		return
	}
	for name, check := range c.Done {
		gauge(checkTime, seconds(check.Time), name)
		gauge(checkFailed, one(check.Failed), name)
	}
	gauge(checkDamaged, one(c.Damaged))
	gauge(checkedIndexes, float64(c.IndexesChecked), "checked")
	gauge(checkedIndexes, float64(c.IndexesSkipped), "skipped")
	gauge(checkedIndexes, float64(c.IndexesWaiting), "waiting")
	gauge(checkRound, seconds(c.RoundEnded))
	gauge(checkMissed, float64(c.RoundMissedDatabases), "databases")
	gauge(checkMissed, float64(c.RoundSkippedIndexes), "indexes")
	if _, asked := c.Done[agentapi.CheckClock]; asked {
		gauge(clockAhead, c.ClockAheadSeconds)
	}
}
