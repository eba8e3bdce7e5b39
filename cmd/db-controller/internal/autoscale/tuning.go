package autoscale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	maxWALSize  = "max_wal_size"
	walKeepSize = "wal_keep_size" // as much, so that a former primary is rewound from its last checkpoint

	findingStays = 30 * time.Minute // before it has anything changed
	tuningPause  = 2 * time.Hour    // after a change, until what is found is about the time since then
	tuningAgain  = 24 * time.Hour   // after one that was taken back
	roomForWAL   = 4                // times the new size that must be free on each volume
)

func tunes(cluster *v1alpha1.PostgresCluster) bool {
	return cluster.Spec.Tuning == v1alpha1.TuningAutomatic
}

// DecideTuning records a larger max_wal_size where checkpoints come early, before an instance gets it, and takes it back where space is short.
func DecideTuning(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !tunes(o.Cluster) {
		return flow.Next
	}
	if short := shortOfSpace(o); short != "" && len(o.Cluster.TunedParameters()) > 0 {
		return tune(o, nil, short+" The parameters have their computed values again.")
	}
	finding, next := wantsMoreWAL(o)
	if finding == nil || againstTuning(o, next) != "" {
		return flow.Next
	}
	parameters := map[string]v1alpha1.ParameterValue{}
	for _, name := range []string{maxWALSize, walKeepSize} {
		if _, set := o.Cluster.Spec.PostgreSQL.Parameters[name]; !set {
			parameters[name] = v1alpha1.ParameterValue(next)
		}
	}
	return tune(o, parameters, finding.Evidence)
}

func tune(o *observed.Cluster, parameters map[string]v1alpha1.ParameterValue, why string) flow.Outcome {
	o.Cluster.Status.AutomaticTuning = &v1alpha1.AutomaticTuning{Parameters: parameters, Reason: observed.Bounded(why, 512), Since: observed.TimeOf(o.Now)}
	message := "Parameters that were tuned automatically are reverted. "
	if size, set := parameters[maxWALSize]; set {
		message = fmt.Sprintf("The instances are given max_wal_size = %s, without a restart. ", size)
	}
	return flow.Save(v1alpha1.ReasonApplying, message+why)
}

// wantsMoreWAL is the finding that has stayed, and the size that would end it; nil: there is none that spec leaves to be changed.
func wantsMoreWAL(o *observed.Cluster) (finding *v1alpha1.ClusterFinding, next string) {
	status := &o.Cluster.Status
	at := slices.IndexFunc(status.Findings, func(f v1alpha1.ClusterFinding) bool { return f.Reason == v1alpha1.ReasonCheckpointsRequested })
	if _, set := o.Cluster.Spec.PostgreSQL.Parameters[maxWALSize]; at < 0 || set || o.Now.Sub(status.Findings[at].Since.Time) < findingStays {
		return nil, ""
	}
	now := o.Cluster.TunedParameters()[maxWALSize]
	if now == "" {
		now = status.Tuning[maxWALSize]
	}
	return &status.Findings[at], postgres.TwiceTheWAL(string(now))
}

// WaitsForTuning says why a finding has nothing changed now; empty: there is none, or nobody wants that.
func WaitsForTuning(o *observed.Cluster) string {
	if !tunes(o.Cluster) {
		return ""
	}
	finding, next := wantsMoreWAL(o)
	if finding == nil {
		return ""
	}
	return againstTuning(o, next)
}

// againstTuning says why the instances are not given that max_wal_size now; empty: nothing speaks against it.
func againstTuning(o *observed.Cluster, size string) string {
	if why := underWay(o); why != "" {
		return why
	}
	if last := o.Cluster.Status.AutomaticTuning; last != nil && last.Since != nil {
		switch since := o.Now.Sub(last.Since.Time); {
		case len(last.Parameters) == 0 && since < tuningAgain:
			return "The last change was reverted, and the next one is tried a day later: " + last.Reason
		case since < tuningPause:
			return "The last change was decided less than two hours ago."
		}
	}
	if short := shortOfSpace(o); short != "" {
		return short
	}
	bytes := postgres.SizeBytes(size)
	for ordinal := range o.Wanted() {
		agent, name := o.Agent(ordinal), o.Names.Instance(ordinal)
		if bytes <= 0 {
			return "The present max_wal_size is not known."
		}
		if agent == nil || agent.WALOn() == nil || agent.WALOn().Bytes == 0 {
			return fmt.Sprintf("%s does not say how much space its volume has.", name)
		}
		volume, what, field := agent.WALOn(), "volume", "spec.storage.size"
		if agent.WALVolume != nil {
			what, field = "WAL volume", "spec.storage.wal.size"
		}
		switch {
		case bytes > volume.Bytes/10:
			return fmt.Sprintf("A max_wal_size of %s would be more than a tenth of the %s of %s: raise %s, or set spec.postgresql.parameters.max_wal_size yourself.", size, what, name, field)
		case volume.Bytes-volume.UsedBytes < roomForWAL*bytes:
			return fmt.Sprintf("The %s of %s has less than %d times %s free: raise %s.", what, name, roomForWAL, size, field)
		}
	}
	return ""
}

// shortOfSpace names an instance whose volume has little space; empty: there is none.
func shortOfSpace(o *observed.Cluster) string {
	for ordinal := range o.Wanted() {
		agent := o.Agent(ordinal)
		if agent == nil {
			continue
		}
		for _, volume := range []*agentapi.VolumeStatus{agent.Volume, agent.WALVolume} {
			if volume != nil && volume.State != "" {
				return fmt.Sprintf("The volume of %s has little space.", o.Names.Instance(ordinal))
			}
		}
	}
	return ""
}
