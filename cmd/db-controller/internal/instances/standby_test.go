package instances

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
)

// standby of the archive in the repository dr, which is changed.
func standby(change func(o *observed.Cluster)) *observed.Cluster {
	return observedtest.Running(func(o *observed.Cluster) {
		o.Cluster.Status = v1alpha1.PostgresClusterStatus{DataGeneration: "g1", MajorVersion: 17, Image: "postgres:17"}
		delete(o.Live, observed.Key("StatefulSet", "shop"))
		o.Cluster.Spec.Standby = &v1alpha1.Standby{
			Source: v1alpha1.StandbySource{Repository: v1alpha1.StandbyRepository{Name: "dr", Lineage: "7-g0"}}, Database: "shop", Owner: "clerk",
		}
		o.StandbyRepository = &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "dr"}, Spec: v1alpha1.BackupRepositorySpec{
			S3: v1alpha1.S3Spec{Bucket: "backups", Credentials: &v1alpha1.S3Credentials{SecretName: "s3"}}, Encryption: &v1alpha1.EncryptionSpec{SecretName: "keys"},
		}}
		if change != nil {
			change(o)
		}
	})
}

func TestAPromotionIsRecordedOnceAndNeverTakenBack(t *testing.T) {
	const end, now = v1alpha1.PromoteAtEndOfArchive, v1alpha1.PromoteImmediately
	recorded := func(mode v1alpha1.StandbyPromotion) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{Promotion: &v1alpha1.StandbyPromotionRequest{Mode: mode, Generation: 3}}
		}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		wanted v1alpha1.StandbyPromotion
		want   v1alpha1.StandbyPromotion
		saves  bool
	}{
		"nothing is requested":             {nil, "", "", false},
		"at the end":                       {nil, end, end, true},
		"immediately":                      {nil, now, now, true},
		"it is recorded":                   {recorded(end), end, end, false},
		"it is hurried":                    {recorded(end), now, now, true},
		"an older spec says nothing of it": {recorded(end), "", end, false},
		"an older spec isn't in a hurry":   {recorded(now), end, now, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := standby(c.change)
			o.Cluster.Spec.Standby.Promote = c.wanted
			outcome := DecidePromotion(t.Context(), o)
			got := v1alpha1.StandbyPromotion("")
			if s := o.Cluster.Status.Standby; s != nil && s.Promotion != nil {
				got = s.Promotion.Mode
			}
			if got != c.want || (outcome.Kind == flow.KindSave) != c.saves {
				t.Errorf("%q, %+v", got, outcome)
			}
		})
	}
	done := standby(func(o *observed.Cluster) { o.InitJob = workload.State{Exists: true, Complete: true} })
	done.Cluster.Spec.Standby.Promote = end
	if DecidePromotion(t.Context(), done); done.Cluster.Status.Standby != nil && done.Cluster.Status.Standby.Promotion != nil {
		t.Error("what is promoted already was to be promoted")
	}
}

func TestTheEndOfTheJobCountsAsThePromotionWhateverTheStatusSays(t *testing.T) {
	for name, change := range map[string]func(*observed.Cluster){
		"as recorded": func(o *observed.Cluster) {
			o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{Stage: v1alpha1.StandbyPromoting, Promotion: &v1alpha1.StandbyPromotionRequest{Mode: v1alpha1.PromoteAtEndOfArchive}}
		},
		"etcd was restored to before the promotion": func(o *observed.Cluster) {
			o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{Stage: v1alpha1.StandbyFollowing}
		},
		"or to before the standby": func(*observed.Cluster) {},
	} {
		t.Run(name, func(t *testing.T) {
			o := standby(func(o *observed.Cluster) {
				o.InitJob = workload.State{Exists: true, Done: true}
				change(o)
			})
			if outcome := RecordPromotion(t.Context(), o); outcome.Kind != flow.KindSave || o.Cluster.Status.Standby.PromotedAt == nil {
				t.Errorf("%+v, %+v", outcome, o.Cluster.Status.Standby)
			}
			if outcome := RecordPromotion(t.Context(), o); outcome != flow.Next {
				t.Errorf("again: %+v", outcome)
			}
		})
	}
	old := observedtest.Running(func(o *observed.Cluster) { o.Cluster.Spec.Standby = &v1alpha1.Standby{} })
	if outcome := RecordPromotion(t.Context(), old); outcome.Kind != flow.KindSave || old.Cluster.Status.Standby.PromotedAt == nil {
		t.Errorf("of a database that was taken over: %+v", outcome)
	}
	for name, o := range map[string]*observed.Cluster{
		"it runs":        standby(func(o *observed.Cluster) { o.InitJob = workload.State{Exists: true, LivePods: 1} }),
		"it is another":  observedtest.Running(nil),
		"there is none":  standby(nil),
		"it is deleting": standby(func(o *observed.Cluster) { o.InitJob = workload.State{Exists: true, Done: true, Deleting: true} }),
	} {
		if RecordPromotion(t.Context(), o); o.Cluster.Status.Standby != nil && o.Cluster.Status.Standby.PromotedAt != nil {
			t.Errorf("%s: it was promoted", name)
		}
	}
}

func TestTheJobOfAStandbyReadsTheSourcesRepositoryAndNothingElse(t *testing.T) {
	o := standby(func(o *observed.Cluster) {
		o.Cluster.UID = "u1"
		o.Cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "own"}}
		o.Cluster.Spec.ReplicationSlots = []v1alpha1.ReplicationSlot{{Name: "cdc"}, {Name: "old", Ensure: v1alpha1.Absent}}
	})
	job := (&Steps{}).initJob(o)
	task := job.Spec.(agentapi.InitJob)
	s := task.Standby
	if s == nil || s.Cluster != "u1" || !s.Repository.ReadOnly || s.Repository.Bucket != "backups" || s.Lineage != "7-g0" || len(s.LostSlots) != 1 || s.LostSlots[0] != "cdc" {
		t.Errorf("%+v", s)
	}
	if job.S3Secret != "s3" || job.KeysSecret != "keys" || !job.Enduring || job.Progress == nil || job.DataClaim != o.Names.Volume(0) {
		t.Errorf("%+v", job)
	}
}

func TestAStandbyWithoutItsRepositoryKeepsTheJobThatRuns(t *testing.T) {
	o := standby(func(o *observed.Cluster) {
		o.StandbyRepository = nil
		o.InitJob = workload.State{Exists: true, LivePods: 1}
		o.Live[observed.Key("Job", o.Names.InitJob())] = &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}}}
	})
	if outcome := (&Steps{}).Initialize(t.Context(), o); outcome.Reason != v1alpha1.ReasonRestoringBackup {
		t.Errorf("%+v", outcome)
	}
	o.InitJob = workload.State{}
	delete(o.Live, observed.Key("Job", o.Names.InitJob()))
	if outcome := (&Steps{}).Initialize(t.Context(), o); outcome.Reason != v1alpha1.ReasonRepositoryNotFound || !strings.Contains(outcome.Message, "spec.standby.source.repository") {
		t.Errorf("%+v", outcome)
	}
	o.StandbyRepository, o.StandbyMissing = &v1alpha1.BackupRepository{}, "keys"
	if reason, message := StandbySourceMissing(o); reason != v1alpha1.ReasonSecretNotFound || !strings.Contains(message, "Secret keys") {
		t.Errorf("%s: %s", reason, message)
	}
}

func TestTheJobOfAStandbyHearsWhetherACopyMayBeReplaced(t *testing.T) {
	for policy, want := range map[v1alpha1.StandbyReinitPolicy]agentapi.StandbyReinitPolicy{
		"": "", v1alpha1.StandbyReinitNever: "", "Unknown": "", v1alpha1.StandbyReinitFromNewerBackup: agentapi.StandbyReinitFromNewer,
	} {
		o := standby(func(o *observed.Cluster) { o.Cluster.Spec.Standby.Reinit = policy })
		if got := standbyWanted(o); got.Reinit != want || got.Cluster != "u1" || got.Promote != "" {
			t.Errorf("%q: %+v", policy, got)
		}
	}
}

// A suite that was upgraded has another agent. The standby serves nobody, but what it does may take long, or not be interrupted.
func TestAStandbyThatFollowsGetsTheAgentOfAnotherSuiteInTheMaintenanceWindow(t *testing.T) {
	const following, restoring, promoting = `{"stage":"Following"}`, `{"stage":"Restoring"}`, `{"stage":"Promoting"}`
	for name, c := range map[string]struct {
		agent, said string
		change      func(*observed.Cluster)
		want        bool
	}{
		"it is the same":    {"agent:1", following, nil, false},
		"it is another one": {"agent:2", following, nil, true},
		"outside of the window": {"agent:2", following, func(o *observed.Cluster) {
			o.Cluster.Spec.MaintenanceWindow = observedtest.WindowOf("0 3 * * 0", "UTC", 3600e9)
		}, false},
		"it restores":           {"agent:2", restoring, nil, false},
		"it makes another copy": {"agent:2", `{"stage":"Following","reinit":{"stage":"Restoring"}}`, nil, false},
		"it plans another copy": {"agent:2", `{"stage":"Following","reinit":{"stage":"Planned"}}`, nil, true},
		"it is being promoted":  {"agent:2", promoting, nil, false},
		"its promotion was requested": {"agent:2", following, func(o *observed.Cluster) {
			o.Cluster.Status.Standby = &v1alpha1.StandbyStatus{Promotion: &v1alpha1.StandbyPromotionRequest{}}
		}, false},
		"nothing is known of it":        {"agent:2", "", nil, false},
		"it has ended":                  {"agent:2", following, func(o *observed.Cluster) { o.InitJob = workload.State{Exists: true, Done: true} }, false},
		"the source's repository lacks": {"agent:2", following, func(o *observed.Cluster) { o.StandbyRepository = nil }, false},
	} {
		o := standby(func(o *observed.Cluster) {
			o.InitJob = workload.State{Exists: true, LivePods: 1}
			o.ImportReport = &corev1.ConfigMap{Data: map[string]string{agentapi.StandbyKey: c.said}}
			created := jobOf(t, (&Steps{Agent: workload.Agent{Image: "agent:1"}}).initJob(o))
			o.Live[observed.Key("Job", o.Names.InitJob())] = created
			observedtest.OrNothing(c.change)(o)
		})
		if got := (&Steps{Agent: workload.Agent{Image: c.agent}}).standbyOutdated(o); got != c.want {
			t.Errorf("%s: it is replaced: %t", name, got)
		}
	}
}

// jobOf is a Job as it is created.
func jobOf(t *testing.T, wanted workload.Job) *batchv1.Job {
	t.Helper()
	client := fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
	if err := wanted.Ensure(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{}
	if err := client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: wanted.Name}, job); err != nil {
		t.Fatal(err)
	}
	return job
}
