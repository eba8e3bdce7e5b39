//go:build integration

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// wanted makes a Backup of the cluster shop.
func (b *bed) wanted(name string, change func(*v1alpha1.BackupSpec)) *v1alpha1.Backup {
	b.Helper()
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace},
		Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}},
	}
	change(&backup.Spec)
	b.make(backup)
	return backup
}

// told is what the worker of a Job is told.
func (b *bed) told(job *batchv1.Job) agentapi.BackupJob {
	b.Helper()
	config, spec := &corev1.ConfigMap{}, agentapi.BackupJob{}
	if err := b.Get(b.Context(), client.ObjectKeyFromObject(job), config); err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal([]byte(config.Data["job.json"]), &spec); err != nil {
		b.Fatal(err)
	}
	return spec
}

func incremental(spec *v1alpha1.BackupSpec) { spec.Type = v1alpha1.BackupIncremental }

func TestAnIncrementalBackupIsPinnedToTheLatestOne(t *testing.T) {
	b := newBed(t)
	b.archived("shop")

	first := b.wanted("first", incremental)
	job := b.job("first-backup")
	if told := b.told(job); told.Parent != "" || told.Compression != "Balanced" || told.MaxBytesPerSecond != 0 || told.MemoryLimit != 96<<20 {
		t.Errorf("told %+v", told)
	}
	b.end(job, success())
	condition := b.awaitReason(first, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if !strings.Contains(condition.Message, "It is a full backup because BackupRepository minio has no intact backup") || first.Status.Type != v1alpha1.BackupFull {
		t.Errorf("%s; type %s", condition.Message, first.Status.Type)
	}

	second := b.wanted("second", func(spec *v1alpha1.BackupSpec) {
		incremental(spec)
		spec.Compression, spec.MaxBytesPerSecond = v1alpha1.BackupFast, ptr.To(resource.MustParse("50Mi"))
		spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}}
	})
	job = b.job("second-backup")
	b.awaitReason(second, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	parent := first.Status.Plan.ID
	if plan := second.Status.Plan; plan.Type != v1alpha1.BackupIncremental || plan.Parent != parent {
		t.Errorf("plan %+v", plan)
	}
	if told := b.told(job); told.Parent != parent || told.Compression != "Fast" || told.MaxBytesPerSecond != 50<<20 || told.MemoryLimit != 192<<20 {
		t.Errorf("told %+v", told)
	}
	if limit := job.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String(); limit != "512Mi" {
		t.Errorf("memory limit %s", limit)
	}
	raw, _ := json.Marshal(agentapi.BackupResult{
		Version: "17.5", StopTime: time.Now(), LogicalBytes: 100 << 20, CopiedBytes: 3 << 20, StoredBytes: 1 << 20, Incremental: true, Parent: parent,
	})
	b.end(job, &agentapi.Outcome{Result: raw})
	condition = b.awaitReason(second, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if s := second.Status; s.Type != v1alpha1.BackupIncremental || s.Parent != parent || s.ChangedBytes != 3<<20 || !strings.HasPrefix(condition.Message, "Backed up 3.0 MiB of 100.0 MiB") {
		t.Errorf("%s; status %+v", condition.Message, s)
	}
}

func TestBackupsThatCannotBeAreRefusedWithWhatToWrite(t *testing.T) {
	b := newBed(t)
	memory := func(request, limit string) func(*v1alpha1.BackupSpec) {
		return func(spec *v1alpha1.BackupSpec) {
			spec.Resources = &v1alpha1.Resources{}
			if request != "" {
				spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}
			}
			if limit != "" {
				spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.BackupSpec)
		want   string
	}{
		"an unknown type":        {func(s *v1alpha1.BackupSpec) { s.Type = "Differential" }, `supported values: "Full", "Incremental"`},
		"an unknown compression": {func(s *v1alpha1.BackupSpec) { s.Compression = "Best" }, `supported values: "Balanced", "Fast", "Small"`},
		"too slow":               {func(s *v1alpha1.BackupSpec) { s.MaxBytesPerSecond = ptr.To(resource.MustParse("100")) }, "use 1Mi or more, or remove it for no limit"},
		"too little memory":      {memory("", "64Mi"), "use 192Mi or more, or remove it for 256Mi"},
		"more than the limit":    {memory("1Gi", "512Mi"), "use a request that is at most the limit"},
		"all well":               {memory("256Mi", "512Mi"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			backup := &v1alpha1.Backup{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Namespace: b.namespace},
				Spec:       v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}},
			}
			test.change(&backup.Spec)
			err := b.Create(t.Context(), backup)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			if err != nil {
				return
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"type":"Incremental"}}`))
			if err := b.Patch(t.Context(), backup, patch); err == nil || !strings.Contains(err.Error(), "spec.type can't be changed: create another Backup") {
				t.Errorf("its type was changed: %v", err)
			}
		})
	}
}
