package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

func TestAnIncrementalBackupBuildsOnTheLatestOfItsLineage(t *testing.T) {
	incremental := func(b *v1alpha1.Backup) { b.Spec.Type = v1alpha1.BackupIncremental }
	succeeded := func(hours int) func(*v1alpha1.Backup) {
		return func(b *v1alpha1.Backup) {
			planned(b)
			b.Status.StopTime = &metav1.Time{Time: noon.Add(time.Duration(hours) * time.Hour)}
			flow.SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "")
		}
	}
	elsewhere := func(b *v1alpha1.Backup) { b.Status.Plan.Repository = "other" }
	before := func(b *v1alpha1.Backup) { b.Status.Plan.Lineage = "7-g0" }
	failed := func(b *v1alpha1.Backup) { b.Status.Conditions[0].Status = metav1.ConditionFalse }
	part := func(b *v1alpha1.Backup) { b.Status.Type = v1alpha1.BackupIncremental }
	wrong := func(b *v1alpha1.Backup) {
		flow.SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt, "")
	}
	for name, test := range map[string]struct {
		me       *v1alpha1.Backup
		siblings []*v1alpha1.Backup
		want     string
	}{
		"the latest":                  {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1)), newBackup("b", succeeded(3)), newBackup("c", succeeded(2))}, "b"},
		"a full one builds on none":   {newBackup("me"), []*v1alpha1.Backup{newBackup("a", succeeded(1))}, ""},
		"the first of all":            {newBackup("me", incremental), nil, ""},
		"not on itself":               {newBackup("me", incremental, succeeded(1)), []*v1alpha1.Backup{newBackup("me", incremental, succeeded(1))}, ""},
		"not on one elsewhere":        {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), elsewhere)}, ""},
		"not on one of other data":    {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), before)}, ""},
		"not on one that failed":      {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), failed)}, ""},
		"not on one that is deleted":  {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), deleted)}, ""},
		"not on one that still runs":  {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", planned)}, ""},
		"not on a wrong one":          {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), wrong)}, ""},
		"nor on what may share that":  {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), wrong), newBackup("b", succeeded(2), part)}, ""},
		"nor on what it may share":    {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1)), newBackup("b", succeeded(2), part, wrong)}, ""},
		"on a full one after that":    {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1), wrong), newBackup("b", succeeded(2))}, "b"},
		"on the one before, then yet": {newBackup("me", incremental), []*v1alpha1.Backup{newBackup("a", succeeded(1)), newBackup("b", succeeded(3), deleted)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{backup: test.me}
			for _, sibling := range test.siblings {
				o.siblings = append(o.siblings, *sibling)
			}
			plan := &v1alpha1.BackupPlan{Repository: "minio", Lineage: "7-g1"}
			pinType(plan, o)
			want := ""
			if test.want != "" {
				want = backupID(newBackup(test.want))
			}
			if plan.Parent != want || (plan.Type == v1alpha1.BackupIncremental) != (want != "") {
				t.Errorf("plan %+v", plan)
			}
		})
	}
}

func TestTheEndSaysWhatWasCopiedAndWhyAll(t *testing.T) {
	result := agentapi.BackupResult{Version: "17.5", StopTime: noon, LogicalBytes: 2 << 30, CopiedBytes: 30 << 20, StoredBytes: 9 << 20}
	incremental := result
	incremental.Incremental, incremental.Parent = true, "b0"
	lost := result
	lost.Why = "parent backup b0 is no longer in the repository"
	for name, test := range map[string]struct {
		result  agentapi.BackupResult
		want    string
		changed int64
	}{
		"an incremental one": {incremental, "Backed up 30.0 MiB of 2.0 GiB, everything that may have changed since backup b0, in 10s (3.0 MiB/s). It takes 9.0 MiB in the bucket, and can be restored to any time from 2026-07-01T12:00:00Z on.", 30 << 20},
		"the parent is lost": {lost, "Backed up 2.0 GiB in 10s (204.8 MiB/s). It takes 9.0 MiB in the bucket, and can be restored to any time from 2026-07-01T12:00:00Z on. It is a full backup because parent backup b0 is no longer in the repository.", 2 << 30},
		"there was none":     {result, "Backed up 2.0 GiB in 10s (204.8 MiB/s). It takes 9.0 MiB in the bucket, and can be restored to any time from 2026-07-01T12:00:00Z on. It is a full backup because BackupRepository minio has no intact backup of the cluster's current data to build on.", 2 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			backup := newBackup("a", planned, func(b *v1alpha1.Backup) { b.Spec.Type = v1alpha1.BackupIncremental })
			backup.Status.StartedAt = &metav1.Time{Time: noon}
			outcome := (&observed{backup: backup, now: noon.Add(10 * time.Second)}).complete(test.result)
			if outcome.Message != test.want || backup.Status.ChangedBytes != test.changed || backup.Status.Parent != test.result.Parent {
				t.Errorf("%s; status %+v", outcome.Message, backup.Status)
			}
		})
	}
}

func TestTheJobHasTheResourcesThatAreWanted(t *testing.T) {
	quantities := func(pairs ...string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return list
	}
	for name, test := range map[string]struct {
		wanted           *v1alpha1.Resources
		requests, limits corev1.ResourceList
		buffers          int64
	}{
		"none":                {nil, quantities("cpu", "100m", "memory", "128Mi"), quantities("memory", "256Mi"), 96 << 20},
		"more memory":         {&v1alpha1.Resources{Limits: quantities("memory", "1Gi")}, quantities("cpu", "100m", "memory", "128Mi"), quantities("memory", "1Gi"), 384 << 20},
		"a request of memory": {&v1alpha1.Resources{Requests: quantities("memory", "512Mi")}, quantities("cpu", "100m", "memory", "512Mi"), quantities("memory", "512Mi"), 192 << 20},
		"a limit of cpu":      {&v1alpha1.Resources{Limits: quantities("cpu", "50m")}, quantities("cpu", "50m", "memory", "128Mi"), quantities("cpu", "50m", "memory", "256Mi"), 96 << 20},
		"all": {&v1alpha1.Resources{Requests: quantities("cpu", "2", "memory", "512Mi"), Limits: quantities("cpu", "4", "memory", "512Mi")},
			quantities("cpu", "2", "memory", "512Mi"), quantities("cpu", "4", "memory", "512Mi"), 192 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			got := resourcesOf(newBackup("a", func(b *v1alpha1.Backup) { b.Spec.Resources = test.wanted }))
			if !equality.Semantic.DeepEqual(got, corev1.ResourceRequirements{Requests: test.requests, Limits: test.limits}) || bufferMemory(got) != test.buffers {
				t.Errorf("got %+v, buffers %d", got, bufferMemory(got))
			}
		})
	}
}

// TestTheJobHasALimitOfCPUWhereItsClusterHas: a quota that wants one would refuse its pods, and nobody can give resources to a Backup that
// the suite requests. Its memory is what it needs, whatever the cluster has.
func TestTheJobHasALimitOfCPUWhereItsClusterHas(t *testing.T) {
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	many := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	requested := func(b *v1alpha1.Backup) {
		request := &protocol.BackupRequest{Kind: v1alpha1.KindUpgrade, Request: v1alpha1.BackupRequest{Cluster: "shop", Token: "t", Purpose: v1alpha1.PurposeSafety}}
		b.Spec = protocol.NewBackup(request).Spec
	}
	limited := func(cpu string) func(*v1alpha1.Backup) {
		return func(b *v1alpha1.Backup) {
			b.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
		}
	}
	for name, test := range map[string]struct {
		cluster     corev1.ResourceList
		change      func(*v1alpha1.Backup)
		cpu, memory string
	}{
		"the cluster has none":      {nil, requested, "0", "256Mi"},
		"the cluster has few":       {few, requested, "2", "256Mi"},
		"the cluster has many":      {many, requested, "4", "256Mi"},
		"it has needed more memory": {few, func(b *v1alpha1.Backup) { b.Status.Plan.MemoryBytes = 900 << 20 }, "2", "900Mi"},
		"its spec has less":         {few, limited("50m"), "50m", "256Mi"},
		"its spec has more":         {few, limited("32"), "32", "256Mi"},
		"its spec requests more than few": {few, func(b *v1alpha1.Backup) {
			b.Spec.Resources = &v1alpha1.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}}
		}, "3", "256Mi"},
	} {
		o := &observed{backup: newBackup("a", planned, test.change), planned: &v1alpha1.BackupRepository{}, cluster: newCluster(func(c *v1alpha1.PostgresCluster) { c.Spec.Resources.Limits = test.cluster })}
		job, err := (&Reconciler{}).job(o)
		if err != nil {
			t.Fatal(err)
		}
		if limits := job.Resources.Limits; limits.Cpu().Cmp(resource.MustParse(test.cpu)) != 0 || limits.Memory().Cmp(resource.MustParse(test.memory)) != 0 {
			t.Errorf("%s: cpu %s, memory %s", name, limits.Cpu(), limits.Memory())
		}
		if request := job.Resources.Requests; test.cpu != "0" && request.Cpu().Cmp(*job.Resources.Limits.Cpu()) > 0 {
			t.Errorf("%s: it requests %s", name, request.Cpu())
		}
	}
}
