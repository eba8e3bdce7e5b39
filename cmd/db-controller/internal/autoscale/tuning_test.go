package autoscale

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// checkpointed is a cluster whose checkpoints have come early for an hour.
func checkpointed(change func(*observed.Cluster)) *observed.Cluster {
	return observedtest.Trio(func(o *observed.Cluster) {
		o.Cluster.Spec.Tuning = v1alpha1.TuningAutomatic
		o.Cluster.Status.Tuning = map[string]v1alpha1.ParameterValue{"max_wal_size": "1024MB"}
		o.Cluster.Status.Findings = []v1alpha1.ClusterFinding{{
			Reason: v1alpha1.ReasonCheckpointsRequested, Evidence: "15 of 17 checkpoints came early.", Since: metav1.NewTime(o.Now.Add(-time.Hour)),
		}}
		for _, agent := range o.Agents {
			agent.Volume = &agentapi.VolumeStatus{Bytes: 40 << 30, UsedBytes: 10 << 30}
		}
		if change != nil {
			change(o)
		}
	})
}

func TestOnlyAParameterThatDoesNoHarmIsChangedAutomatically(t *testing.T) {
	parameter := func(name string, value v1alpha1.ParameterValue) func(*observed.Cluster) {
		return func(o *observed.Cluster) { observedtest.SetParameter(o, name, value) }
	}
	for name, c := range map[string]struct {
		change  func(*observed.Cluster)
		size    string // of max_wal_size and wal_keep_size, which agents are told
		kept    string
		waiting string
	}{
		"checkpoints come early":   {nil, "2048MB", "2048MB", ""},
		"nobody asks for it":       {func(o *observed.Cluster) { o.Cluster.Spec.Tuning = "" }, "", "", ""},
		"left to a person":         {func(o *observed.Cluster) { o.Cluster.Spec.Tuning = v1alpha1.TuningManual }, "", "", ""},
		"a person has set it":      {parameter("max_wal_size", "1GB"), "1GB", "", ""},
		"a person has set another": {parameter("wal_keep_size", "1GB"), "2048MB", "1GB", ""},
		"for a short time": {func(o *observed.Cluster) {
			o.Cluster.Status.Findings[0].Since = metav1.NewTime(o.Now.Add(-time.Minute))
		}, "", "", ""},
		"of another reason": {func(o *observed.Cluster) { o.Cluster.Status.Findings[0].Reason = v1alpha1.ReasonTemporaryFiles }, "", "", ""},
		"a small volume":    {func(o *observed.Cluster) { o.Agents["shop-1"].Volume.Bytes = 19 << 30 }, "", "", "more than a tenth of the volume of shop-1"},
		"a full volume": {func(o *observed.Cluster) { o.Agents["shop-2"].Volume.UsedBytes = 33 << 30 }, "", "",
			"The volume of shop-2 has less than 4 times 2048MB free"},
		"a volume that fills":    {func(o *observed.Cluster) { o.Agents["shop-2"].Volume.State = agentapi.VolumeAlmostFull }, "", "", "shop-2 has little space"},
		"a volume of no size":    {func(o *observed.Cluster) { o.Agents["shop-1"].Volume = nil }, "", "", "shop-1 does not say"},
		"a size of no number":    {func(o *observed.Cluster) { o.Cluster.Status.Tuning["max_wal_size"] = "much" }, "", "", "is not known"},
		"during a Restore":       {func(o *observed.Cluster) { o.Operation = "Restore back" }, "", "", "Restore back has not ended."},
		"while it is hibernated": {func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }, "", "", "hibernated"},
	} {
		o := checkpointed(c.change)
		if waits := WaitsForTuning(o); !strings.Contains(waits, c.waiting) || (waits == "") != (c.waiting == "") {
			t.Errorf("%s: it waits: %q", name, waits)
		}
		DecideTuning(t.Context(), o)
		if told := desired.AgentConfig(o).Parameters; told["max_wal_size"] != c.size || told["wal_keep_size"] != c.kept {
			t.Errorf("%s: %v", name, told)
		}
	}
}

func TestWhatWasTunedIsOnRecordAndTakenBack(t *testing.T) {
	o := checkpointed(nil)
	size := func() string { return desired.AgentConfig(o).Parameters["max_wal_size"] }
	if outcome := DecideTuning(t.Context(), o); outcome.Finished() || o.Cluster.Status.AutomaticTuning.Reason != "15 of 17 checkpoints came early." {
		t.Errorf("%+v, %+v", outcome, o.Cluster.Status.AutomaticTuning)
	}
	if outcome := DecideTuning(t.Context(), o); !outcome.Finished() || !strings.Contains(WaitsForTuning(o), "less than two hours ago") {
		t.Errorf("at once: %+v", outcome)
	}
	o.Now = o.Now.Add(tuningPause)
	if DecideTuning(t.Context(), o); size() != "4096MB" {
		t.Errorf("later: %s", size())
	}
	o.Now = o.Now.Add(tuningPause)
	if DecideTuning(t.Context(), o); size() != "4096MB" || !strings.Contains(WaitsForTuning(o), "a tenth of the volume") {
		t.Errorf("it grows without a bound: %s", size())
	}
	o.Agents["shop-1"].Volume.State = agentapi.VolumeAlmostFull
	if outcome := DecideTuning(t.Context(), o); outcome.Finished() || size() != "" || o.Cluster.Status.AutomaticTuning.Reason == "" {
		t.Errorf("%+v, %+v", outcome, o.Cluster.Status.AutomaticTuning)
	}
	o.Agents["shop-1"].Volume.State = ""
	o.Now = o.Now.Add(tuningPause)
	if outcome := DecideTuning(t.Context(), o); !outcome.Finished() || !strings.Contains(WaitsForTuning(o), "reverted") {
		t.Errorf("it comes and goes: %+v", outcome)
	}
	o.Now = o.Now.Add(tuningAgain)
	if DecideTuning(t.Context(), o); size() != "2048MB" {
		t.Errorf("a day later: %s", size())
	}
	o.Cluster.Spec.Tuning = v1alpha1.TuningManual
	if size() != "" {
		t.Errorf("nobody wants it any more: %s", size())
	}
}
