package archive

import (
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// note keeps what a try says about the health of the archive. An empty name is a try without a file: that the lineage is
// ours says nothing about a file that can't be archived, and may be noted later than that.
func (a *Archiver) note(t *target, name string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.target != t || err == nil && name == "" && a.failing != "" {
		return
	}
	if err == nil {
		if !a.health.FailingSince.IsZero() {
			a.log.Info("WAL is archived again", "failingSince", a.health.FailingSince)
		}
		a.health.FailingSince, a.health.Error, a.failing = time.Time{}, "", ""
		if name != "" {
			a.pushed++
			a.health.LastTime = a.now().UTC()
			if _, err := postgres.ParseSegment(name, t.Claim.SegmentSize); err == nil {
				a.health.LastWAL = max(a.health.LastWAL, name)
			}
			a.releaseLater()
		}
		return
	}
	a.noteFailure(name, err)
}

// noteFailure is note of an error. The lock is held.
func (a *Archiver) noteFailure(name string, err error) {
	a.failures++
	sentence := Explain(err)
	if a.health.FailingSince.IsZero() {
		a.health.FailingSince = a.now().UTC()
	}
	if a.health.Error != sentence {
		a.log.Error("WAL can't be archived; it stays on the volume", "file", name, "error", sentence)
	}
	a.health.Error, a.failing = sentence, name
	a.health.LastFailure, a.health.LastFailureTime = sentence, a.now().UTC()
}

// Explain says in one sentence what is wrong.
func Explain(err error) string {
	if lasting(err) {
		return err.Error()
	}
	return objstore.Explain(err)
}

// Status is how archiving goes; nil without a target.
func (a *Archiver) Status() *agentapi.ArchiveStatus {
	a.mu.Lock()
	health, t := a.health, a.target
	until := time.Time{}
	if t != nil {
		until = t.shipped.at
	}
	a.mu.Unlock()
	if t == nil {
		return nil
	}
	health.Damaged = t.damage()
	if behind, err := readBacklog(a.walDir); err == nil {
		if until.After(behind.complete) {
			behind.complete = until
		}
		health.Waiting, health.WaitingSince, health.CompleteUntil = behind.waiting, behind.since, behind.complete
		health.RPOSeconds = behind.atRisk(a.walDir, t.Claim.SegmentSize, t.Timeout, a.now()).Seconds()
	}
	return &health
}

// Counts are how many files were pushed and how many tries failed since the agent started.
func (a *Archiver) Counts() (pushed, failures int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pushed, a.failures
}

// why is what is wrong with the archive, or err if nothing is known.
func (a *Archiver) why(err error) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.health.Error != "" {
		return a.health.Error
	}
	return err.Error()
}
