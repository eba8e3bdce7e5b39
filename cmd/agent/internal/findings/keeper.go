package findings

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Keeper has the samples of the last hour, and what was told of them. Only one goroutine uses it.
type Keeper struct {
	samples []Sample
	told    []agentapi.LoadFinding
	toldAt  map[string]time.Time // by reason: when its numbers were taken
}

// Add a sample, and say what is found now. The numbers of a finding that stays are renewed once an hour, so that whoever keeps them writes as
// rarely. What takes a while to be judged is undecided until then.
func (k *Keeper) Add(s Sample) agentapi.Findings {
	k.samples = append(k.samples, s)
	k.samples = slices.DeleteFunc(k.samples, func(old Sample) bool { return s.At.Sub(old.At) > window })
	k.samples = k.samples[max(0, len(k.samples)-mostSamples):]
	found, at := Judge(k.samples), map[string]time.Time{}
	for i := range found {
		reason := found[i].Reason
		at[reason] = s.At
		before := slices.IndexFunc(k.told, func(told agentapi.LoadFinding) bool { return told.Reason == reason })
		if before >= 0 && s.At.Sub(k.toldAt[reason]) < evidenceLife {
			found[i], at[reason] = k.told[before], k.toldAt[reason]
		}
	}
	k.told, k.toldAt = found, at
	findings := agentapi.Findings{Found: slices.Clone(found)}
	if _, enough := over(k.samples, func(Sample) int64 { return 0 }); !enough {
		findings.Undecided = []string{agentapi.FindingCheckpointsRequested, agentapi.FindingTemporaryFiles, agentapi.FindingAutovacuumBusy}
	}
	return findings
}
