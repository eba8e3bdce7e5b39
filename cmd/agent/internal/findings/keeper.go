package findings

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Keeper has the samples of the last hour, and what was told of them. Only one goroutine uses it.
type Keeper struct {
	samples []Sample
	told    Told
}

// Told is what was told last, so that the numbers of what stays are renewed once an hour only.
type Told struct {
	found []agentapi.LoadFinding
	at    map[string]time.Time // by reason: when its numbers were taken
}

// Renew says what to tell of what is found now.
func (t *Told) Renew(found []agentapi.LoadFinding, now time.Time) []agentapi.LoadFinding {
	at := map[string]time.Time{}
	for i := range found {
		reason := found[i].Reason
		at[reason] = now
		before := slices.IndexFunc(t.found, func(told agentapi.LoadFinding) bool { return told.Reason == reason })
		if before >= 0 && now.Sub(t.at[reason]) < evidenceLife {
			found[i], at[reason] = t.found[before], t.at[reason]
		}
	}
	t.found, t.at = found, at
	return slices.Clone(found)
}

// Add a sample, and say what is found now. The numbers of a finding that stays are renewed once an hour, so that whoever keeps them writes as
// rarely. What takes a while to be judged is undecided until then.
func (k *Keeper) Add(s Sample) agentapi.Findings {
	k.samples = append(k.samples, s)
	k.samples = slices.DeleteFunc(k.samples, func(old Sample) bool { return s.At.Sub(old.At) > window })
	k.samples = k.samples[max(0, len(k.samples)-mostSamples):]
	findings := agentapi.Findings{Found: k.told.Renew(Judge(k.samples), s.At)}
	if _, enough := over(k.samples, func(Sample) int64 { return 0 }); !enough {
		findings.Undecided = []string{agentapi.FindingCheckpointsRequested, agentapi.FindingTemporaryFiles, agentapi.FindingAutovacuumBusy}
	}
	return findings
}
