// Package findings tells from what a primary does which of its settings do not fit, with numbers and with what to do. Look asks the server, once
// a minute in the session that is open anyway; Judge is pure.
package findings

import (
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Sample is what a server says of itself at one time. Counters only grow, until somebody resets them.
type Sample struct {
	At time.Time
	// CheckpointsTimed and CheckpointsRequested are counters, as are TempFiles and TempBytes of all databases.
	CheckpointsTimed, CheckpointsRequested int64
	TempFiles, TempBytes                   int64
	// Autovacuum workers that run, of as many as may.
	Workers, MaxWorkers int64
	// Sessions of clients, of as many as they may have.
	Sessions, MaxSessions int64
	// XIDAge of the database with the oldest transaction ID, and MaxXIDAge, at which an aggressive vacuum begins.
	XIDAge, MaxXIDAge int64
	XIDDatabase       string
	// Slot that retains most WAL, SlotBytes of it, and whether somebody reads it. LeastSlotBytes is max_wal_size.
	Slot                      string
	SlotBytes, LeastSlotBytes int64
	SlotActive                bool
	// SlotsSetAside are the logical slots of data that came back, under the names that they have now; empty: there are none.
	SlotsSetAside string
	// ChecksumFailures is a counter, of all databases; ChecksumDatabase has most.
	ChecksumFailures int64
	ChecksumDatabase string
	// ClockInstance is the replica whose clock is furthest off, by ClockAhead; negative: it is behind.
	ClockInstance string
	ClockAhead    time.Duration
	// Certificate of the server is valid so long; zero: that isn't known.
	Certificate agentapi.Validity
}

// Thresholds of the findings.
const (
	window             = time.Hour        // that counters are looked at over
	leastWindow        = 20 * time.Minute // of samples, for what is a rate
	fewestRequested    = 6                // checkpoints in the window
	mostTempBytes      = 1 << 30          // in the window
	busyShare          = 0.9              // of the samples, in which all autovacuum workers run
	sessionsShare      = 0.85             // of the sessions that clients may have
	wraparoundFactor   = 2                // of the age at which autovacuum freezes in any case
	clockAhead         = 5 * time.Second  // of a replica
	clockBehind        = time.Minute      // of a replica, beyond the pause between two reports
	evidenceLife       = time.Hour        // of numbers that are shown, unless they belong to a new finding
	mostSamples        = 61
	leastSlotRetention = 1 << 30
)

// Judge says what is found in the samples of the last hour, the oldest first, at most one finding of each reason.
func Judge(samples []Sample) []agentapi.LoadFinding {
	if len(samples) == 0 {
		return nil
	}
	var found []agentapi.LoadFinding
	for _, rule := range []func([]Sample) *agentapi.LoadFinding{
		wraparound, checksums, slots, aside, sessions, clocks, certificate, checkpoints, autovacuum, temporaryFiles,
	} {
		if finding := rule(samples); finding != nil {
			found = append(found, *finding)
		}
	}
	return found
}

// over says how much a counter has grown in the samples, leaving out what grew while it was reset; and whether they cover enough time.
func over(samples []Sample, counter func(Sample) int64) (grown int64, enough bool) {
	for i := 1; i < len(samples); i++ {
		grown += max(0, counter(samples[i])-counter(samples[i-1]))
	}
	return grown, last(samples).At.Sub(samples[0].At) >= leastWindow
}

func last(samples []Sample) Sample { return samples[len(samples)-1] }

func minutes(samples []Sample) int {
	return int(last(samples).At.Sub(samples[0].At).Round(time.Minute).Minutes())
}

func checkpoints(samples []Sample) *agentapi.LoadFinding {
	requested, enough := over(samples, func(s Sample) int64 { return s.CheckpointsRequested })
	timed, _ := over(samples, func(s Sample) int64 { return s.CheckpointsTimed })
	if !enough || requested < fewestRequested || requested <= timed {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingCheckpointsRequested,
		Evidence: fmt.Sprintf("%d of %d checkpoints within %d minutes came early, mostly because max_wal_size was reached.", requested, requested+timed, minutes(samples)),
		Advice:   `Set spec.postgresql.parameters.max_wal_size to twice its present value, such as "4GB", if the volume has the space.`,
	}
}

func temporaryFiles(samples []Sample) *agentapi.LoadFinding {
	size, enough := over(samples, func(s Sample) int64 { return s.TempBytes })
	files, _ := over(samples, func(s Sample) int64 { return s.TempFiles })
	if !enough || size < mostTempBytes {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingTemporaryFiles,
		Evidence: fmt.Sprintf("Queries wrote %d temporary files of %s within %d minutes.", files, bytes(size), minutes(samples)),
		Advice: `Look for the queries in the log (log_temp_files), and give them an index, or more memory: ALTER ROLE … SET work_mem, or ` +
			`spec.postgresql.parameters.work_mem, such as "64MB", with a higher spec.resources.limits.memory.`,
	}
}

func autovacuum(samples []Sample) *agentapi.LoadFinding {
	busy := 0
	for _, s := range samples {
		if s.MaxWorkers > 0 && s.Workers >= s.MaxWorkers {
			busy++
		}
	}
	if _, enough := over(samples, func(Sample) int64 { return 0 }); !enough || float64(busy) < busyShare*float64(len(samples)) {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingAutovacuumBusy,
		Evidence: fmt.Sprintf("All %d autovacuum workers ran at %d of %d looks within %d minutes, so tables wait for them.", last(samples).MaxWorkers, busy, len(samples), minutes(samples)),
		Advice: `Set spec.postgresql.parameters.autovacuum_vacuum_cost_limit to twice its present value, such as "2000". More workers alone share the same limit: ` +
			`autovacuum_max_workers, such as "6", needs a restart.`,
	}
}

func sessions(samples []Sample) *agentapi.LoadFinding {
	most := samples[0]
	for _, s := range samples {
		if s.Sessions > most.Sessions {
			most = s
		}
	}
	if most.MaxSessions <= 0 || float64(most.Sessions) < sessionsShare*float64(most.MaxSessions) {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingConnectionsNearLimit,
		Evidence: fmt.Sprintf("Clients had %d of the %d sessions that they can have, at %s.", most.Sessions, most.MaxSessions, most.At.UTC().Format(time.TimeOnly)),
		Advice:   `Put a Pooler before the cluster, or set spec.postgresql.parameters.max_connections, such as "200", which restarts the instances.`,
	}
}

func wraparound(samples []Sample) *agentapi.LoadFinding {
	s := last(samples)
	if s.MaxXIDAge <= 0 || s.XIDAge < wraparoundFactor*s.MaxXIDAge {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason: agentapi.FindingWraparoundAge,
		Evidence: fmt.Sprintf("The oldest transaction ID in database %s is %d million transactions old, and writes end at about 2000 million. Autovacuum freezes from %d million on.",
			s.XIDDatabase, s.XIDAge/1e6, s.MaxXIDAge/1e6),
		Advice: `End what holds it: long transactions (pg_stat_activity), prepared transactions, and unread slots. Then run VACUUM (FREEZE) in the tables with the oldest relfrozenxid.`,
	}
}

func slots(samples []Sample) *agentapi.LoadFinding {
	s := last(samples)
	if s.Slot == "" || s.SlotBytes < max(2*s.LeastSlotBytes, leastSlotRetention) {
		return nil
	}
	reader := "nobody reads it"
	if s.SlotActive {
		reader = "its reader lags"
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingSlotRetainsWAL,
		Evidence: fmt.Sprintf("Replication slot %s retains %s of WAL, and %s.", s.Slot, bytes(s.SlotBytes), reader),
		Advice: `Have its client read it, or drop the slot: set ensure: Absent for it in spec.replicationSlots, or, if it is not listed there, run SELECT pg_drop_replication_slot(…). ` +
			`spec.postgresql.parameters.max_slot_wal_keep_size, such as "10GB", bounds what any slot retains.`,
	}
}

func aside(samples []Sample) *agentapi.LoadFinding {
	s := last(samples)
	if s.SlotsSetAside == "" {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason: agentapi.FindingSlotsSetAside,
		Evidence: fmt.Sprintf("An undo or a rollback brought the data back, so clients of logical slots may have read changes that it doesn't have, and their slots are set aside as %s. "+
			"They retain WAL.", s.SlotsSetAside),
		Advice: `Have each client copy its tables again with a new slot, and run SELECT pg_drop_replication_slot(…) for the one that is set aside. If a client has read nothing from the ` +
			`other data, bring its slot back: SELECT pg_copy_logical_replication_slot(…) with its former name, and drop the one that is set aside. For a slot in spec.replicationSlots, ` +
			`status.replicationSlots says how.`,
	}
}

func checksums(samples []Sample) *agentapi.LoadFinding {
	s := last(samples)
	if s.ChecksumFailures == 0 {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingChecksumFailures,
		Evidence: fmt.Sprintf("PostgreSQL has read %d pages with a wrong checksum, most of them in database %s.", s.ChecksumFailures, s.ChecksumDatabase),
		Advice:   `Switch over to another instance, and clone this one again: spec.reinit: {instance: shop-0, token: a}. Then verify the newest backup.`,
	}
}

func clocks(samples []Sample) *agentapi.LoadFinding {
	s := last(samples)
	if s.ClockInstance == "" || s.ClockAhead < clockAhead && s.ClockAhead > -clockBehind {
		return nil
	}
	direction, off := "ahead of", s.ClockAhead
	if off < 0 {
		direction, off = "behind", -off
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingClockSkew,
		Evidence: fmt.Sprintf("The clock of %s is about %s %s that of the primary.", s.ClockInstance, off.Round(time.Second), direction),
		Advice:   `Look at the time synchronisation (chrony, systemd-timesyncd) of both nodes. Elections do not depend on it; certificates and times in backups do.`,
	}
}

func certificate(samples []Sample) *agentapi.LoadFinding {
	s := last(samples)
	if !s.Certificate.EndsSoon(s.At) {
		return nil
	}
	return &agentapi.LoadFinding{
		Reason:   agentapi.FindingCertificateExpires,
		Evidence: fmt.Sprintf("The certificate of the server, or a CA above it, ends on %s.", s.Certificate.Until.UTC().Format(time.RFC3339)),
		Advice:   `The db-controller renews it a month before that: look at its log, and at the condition UpToDate. If spec.tls.serverSecret is set, look at the condition CertificatesReady, and at what fills that Secret.`,
	}
}

func bytes(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
