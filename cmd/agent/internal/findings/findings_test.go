package findings

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

var noon = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

// quiet is a server that does nothing of note for half an hour, with a change in each minute.
func quiet(change func(minute int64, s *Sample)) (samples []Sample) {
	for minute := range int64(31) {
		s := Sample{
			At: noon.Add(time.Duration(minute) * time.Minute), MaxWorkers: 3, Sessions: 10, MaxSessions: 92, XIDAge: 150e6, MaxXIDAge: 200e6, XIDDatabase: "shop",
			LeastSlotBytes: 1 << 30, Certificate: agentapi.Validity{Until: noon.Add(60 * 24 * time.Hour)}, CheckpointsTimed: 100 + minute/15,
		}
		change(minute, &s)
		samples = append(samples, s)
	}
	return samples
}

// validFor so many hours in all, of which some are left at the last look.
func validFor(hours, left int) agentapi.Validity {
	until := noon.Add(time.Duration(left) * time.Hour)
	return agentapi.Validity{From: until.Add(-time.Duration(hours) * time.Hour), Until: until}
}

func TestWhatAServerDoesIsJudgedWithNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(minute int64, s *Sample)
		reason string // empty: nothing is found
		says   string
	}{
		"nothing": {func(int64, *Sample) {}, "", ""},
		"checkpoints that are requested": {func(m int64, s *Sample) { s.CheckpointsRequested = 7 + m/2 }, agentapi.FindingCheckpointsRequested,
			"15 of 17 checkpoints within 30 minutes"},
		"few checkpoints that are requested": {func(m int64, s *Sample) { s.CheckpointsRequested = m / 10 }, "", ""},
		"counters that were reset":           {func(m int64, s *Sample) { s.CheckpointsRequested, s.TempBytes = 1000-m, int64(1)<<40-m }, "", ""},
		"temporary files": {func(m int64, s *Sample) { s.TempFiles, s.TempBytes = 3*m, m<<30 }, agentapi.FindingTemporaryFiles,
			"90 temporary files of 30 GiB within 30 minutes"},
		"autovacuum that is busy":            {func(_ int64, s *Sample) { s.Workers = 3 }, agentapi.FindingAutovacuumBusy, "All 3 autovacuum workers ran at 31 of 31 looks"},
		"autovacuum that is busy at times":   {func(m int64, s *Sample) { s.Workers = 2 + m%2 }, "", ""},
		"sessions that were many":            {func(m int64, s *Sample) { s.Sessions = 10 + 72*(m%2) }, agentapi.FindingConnectionsNearLimit, "82 of the 92 sessions"},
		"sessions of a server with no limit": {func(_ int64, s *Sample) { s.Sessions, s.MaxSessions = 10, 0 }, "", ""},
		"old transaction IDs":                {func(_ int64, s *Sample) { s.XIDAge = 700e6 }, agentapi.FindingWraparoundAge, "in database shop is 700 million"},
		"transaction IDs that are due":       {func(_ int64, s *Sample) { s.XIDAge = 210e6 }, "", ""},
		"a slot that nobody reads":           {func(_ int64, s *Sample) { s.Slot, s.SlotBytes = "cdc", 20<<30 }, agentapi.FindingSlotRetainsWAL, "slot cdc retains 20 GiB of WAL, and nobody reads it"},
		"a slot whose reader lags":           {func(_ int64, s *Sample) { s.Slot, s.SlotBytes, s.SlotActive = "cdc", 3<<30, true }, agentapi.FindingSlotRetainsWAL, "its reader lags"},
		"a slot that retains what is usual":  {func(_ int64, s *Sample) { s.Slot, s.SlotBytes = "cdc", 1<<30 }, "", ""},
		"slots that were set aside":          {func(_ int64, s *Sample) { s.SlotsSetAside = "howdah_aside_4_cdc" }, agentapi.FindingSlotsSetAside, "set aside as howdah_aside_4_cdc"},
		"damaged pages":                      {func(_ int64, s *Sample) { s.ChecksumFailures, s.ChecksumDatabase = 2, "shop" }, agentapi.FindingChecksumFailures, "2 pages"},
		"a clock that is ahead":              {func(_ int64, s *Sample) { s.ClockInstance, s.ClockAhead = "shop-1", 7*time.Second }, agentapi.FindingClockSkew, "The clock of shop-1 is about 7s ahead of that"},
		"a clock that is behind":             {func(_ int64, s *Sample) { s.ClockInstance, s.ClockAhead = "shop-1", -5*time.Minute }, agentapi.FindingClockSkew, "about 5m0s behind that"},
		"a report that is old":               {func(_ int64, s *Sample) { s.ClockInstance, s.ClockAhead = "shop-1", -20*time.Second }, "", ""},
		"a certificate that ends":            {func(_ int64, s *Sample) { s.Certificate.Until = noon.Add(5 * 24 * time.Hour) }, agentapi.FindingCertificateExpires, "2026-03-08T12:00:00Z"},
		"a certificate that nobody can read": {func(_ int64, s *Sample) { s.Certificate = agentapi.Validity{} }, "", ""},
		"one of a day, with ten hours left":  {func(_ int64, s *Sample) { s.Certificate = validFor(24, 10) }, "", ""},
		"one of a day, with four hours left": {func(_ int64, s *Sample) { s.Certificate = validFor(24, 4) }, agentapi.FindingCertificateExpires, "or a CA above it, ends on 2026-03-03T16:00:00Z"},
	} {
		found := Judge(quiet(c.change))
		switch {
		case c.reason == "" && len(found) > 0, c.reason != "" && len(found) != 1:
			t.Errorf("%s: %+v", name, found)
		case c.reason != "" && (found[0].Reason != c.reason || !strings.Contains(found[0].Evidence, c.says) || !strings.HasSuffix(found[0].Advice, ".")):
			t.Errorf("%s: %+v", name, found[0])
		}
	}
}

func TestTheNumbersOfAFindingThatStaysAreRenewedOnceAnHour(t *testing.T) {
	keeper, evidence := &Keeper{}, map[string]bool{}
	for minute := range 120 {
		s := Sample{At: noon.Add(time.Duration(minute) * time.Minute), XIDAge: 700e6 + int64(minute)*1e6, MaxXIDAge: 200e6}
		found := keeper.Add(s)
		if len(found.Found) != 1 || (len(found.Undecided) > 0) != (minute < 20) {
			t.Fatalf("minute %d: %+v", minute, found)
		}
		evidence[found.Found[0].Evidence] = true
	}
	if len(evidence) != 2 || len(keeper.samples) > mostSamples {
		t.Errorf("%d samples, and %v", len(keeper.samples), evidence)
	}
	if found := keeper.Add(Sample{At: noon.Add(2 * time.Hour)}); len(found.Found) > 0 {
		t.Errorf("it stays: %+v", found)
	}
}
