package worlds

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// worker is the process of a Job's pod.
type worker struct {
	pod, kind string
	node      *node
	volume    *volume
	steps     int
}

// jobSpec is of job.json what a worker acts on here.
type jobSpec struct {
	DataGeneration, FromGeneration, ToGeneration string
	ToVersion, MajorVersion                      int
}

// runJobs is the controller of Jobs.
func (k *kube) runJobs() {
	for _, job := range each[*batchv1.Job](k.world) {
		if job.DeletionTimestamp != nil || len(job.Status.Conditions) > 0 {
			continue
		}
		k.runJob(job)
	}
}

func (k *kube) runJob(job *batchv1.Job) {
	live, failed, well, final := k.podsOf(job)
	changed := job.DeepCopy()
	overdue := job.Spec.ActiveDeadlineSeconds != nil && job.Status.StartTime != nil &&
		time.Since(job.Status.StartTime.Time) > time.Duration(*job.Spec.ActiveDeadlineSeconds)*time.Second
	switch {
	case well:
		finish(changed, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	case overdue && live != nil:
		if live.DeletionTimestamp == nil {
			_ = k.world.api.Delete(k.world.control.ctx, live.DeepCopy())
		}
		return
	case overdue || final || failed > int(ptr.Deref(job.Spec.BackoffLimit, 6)):
		finish(changed, batchv1.JobFailureTarget, batchv1.JobFailed)
	case live == nil:
		name := fmt.Sprintf("%s-%d", job.Name, failed)
		for n := failed; k.world.get(name, &corev1.Pod{}) == nil; n++ {
			name = fmt.Sprintf("%s-%d", job.Name, n+1)
		}
		if k.world.api.Create(k.world.control.ctx, podOf(job, batchv1.SchemeGroupVersion.WithKind("Job"), job.Spec.Template, name)) != nil || job.Status.StartTime != nil {
			return
		}
		changed.Status.StartTime = ptr.To(metav1.Now())
	default:
		return
	}
	_ = k.world.api.Status().Update(k.world.control.ctx, changed)
}

func finish(job *batchv1.Job, kinds ...batchv1.JobConditionType) {
	for _, kind := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue})
	}
}

// podsOf a Job: one that has not ended, how many have failed, whether one has ended well, and whether one has failed for good.
func (k *kube) podsOf(job *batchv1.Job) (live *corev1.Pod, failed int, well, final bool) {
	for _, pod := range each[*corev1.Pod](k.world) {
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			well = true
		case corev1.PodFailed:
			failed++
			ended := pod.Status.ContainerStatuses[0].State.Terminated
			final = final || ended != nil && ended.ExitCode == agentapi.ExitFinal
		default:
			live = pod
		}
	}
	return live, failed, well, final
}

// endWorker ends the process, whatever it was doing.
func (k *kube) endWorker(uid types.UID) {
	if w := k.workers[uid]; w != nil && w.volume != nil {
		delete(w.volume.writers, uid)
	}
	delete(k.workers, uid)
}

// work is a step of each worker.
func (k *kube) work() {
	for _, uid := range slices.Sorted(maps.Keys(k.workers)) {
		w := k.workers[uid]
		if w.node.off {
			continue
		}
		if w.steps++; w.steps < 3 || !k.world.calm && k.world.chance(2) {
			k.half(w)
			continue
		}
		if w.node.cut {
			continue // it has nobody to tell
		}
		pod := &corev1.Pod{}
		if k.world.get(w.pod, pod) != nil || pod.UID != uid {
			continue
		}
		outcome := k.done(w, k.spec(pod))
		message, _ := json.Marshal(outcome)
		k.endWorker(uid)
		exit := int32(0)
		if outcome.Error != nil {
			exit = agentapi.ExitFinal
		}
		k.world.say("%s has ended with exit status %d", w.pod, exit)
		k.ended(pod, exit, string(message))
	}
}

// half of the work is there.
func (k *kube) half(w *worker) {
	pod := &corev1.Pod{}
	if w.volume == nil || k.world.get(w.pod, pod) != nil {
		return
	}
	spec := k.spec(pod)
	for _, written := range []string{spec.DataGeneration, spec.ToGeneration} {
		if written != "" && w.volume.data[written] == nil {
			w.volume.data[written] = &data{}
		}
	}
}

// done is what the work comes to.
func (k *kube) done(w *worker, spec jobSpec) agentapi.Outcome {
	fate := k.world.people.fateOf(w.pod)
	switch w.kind {
	case workload.ComponentInit:
		w.volume.data[spec.DataGeneration] = &data{whole: true, clean: true, system: "7", major: spec.MajorVersion}
		return agentapi.Outcome{}
	case workload.ComponentUpgradeCheck:
		result := agentapi.UpgradeCheckResult{}
		if fate.obstacle {
			result.Findings = []agentapi.Finding{{Severity: string(v1alpha1.FindingError), Check: "x", Message: "It can't be upgraded."}}
		}
		return outcome(result)
	case workload.ComponentUpgrade:
		return k.upgraded(w, spec, fate)
	case workload.ComponentRestore:
		return k.restored(w, spec, fate)
	}
	return agentapi.Outcome{Error: &agentapi.JobError{Reason: "Unknown", Message: "nobody knows what " + w.kind + " is", Final: true}}
}

func (k *kube) upgraded(w *worker, spec jobSpec, fate *fate) agentapi.Outcome {
	from := w.volume.data[spec.FromGeneration]
	if fate.fails || from == nil || !from.whole {
		return agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "The old data can't be upgraded.", Final: true}}
	}
	d := from.copied()
	d.system, d.major, d.clean = from.system+"1", spec.ToVersion, true
	if before := w.volume.data[spec.ToGeneration]; before != nil && before.whole {
		d = before // its result was lost, and its work wasn't
	}
	w.volume.data[spec.ToGeneration] = d
	k.world.rows.parent[spec.ToGeneration] = spec.FromGeneration
	return outcome(agentapi.UpgradeResult{DataGeneration: spec.ToGeneration, SystemIdentifier: d.system, MajorVersion: spec.ToVersion})
}

// restored is the backup, which has no rows.
func (k *kube) restored(w *worker, spec jobSpec, fate *fate) agentapi.Outcome {
	if fate.fails {
		return agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "The backup is damaged.", Final: true}}
	}
	if before := w.volume.data[spec.DataGeneration]; before == nil || !before.whole {
		w.volume.data[spec.DataGeneration] = &data{whole: true, clean: true, system: "7", major: 17}
	}
	return outcome(agentapi.RestoreResult{
		DataGeneration: spec.DataGeneration, SystemIdentifier: "7", MajorVersion: 17, ReachedLSN: "0/7000000", Timeline: 2,
	})
}

func outcome(result any) agentapi.Outcome {
	raw, _ := json.Marshal(result)
	return agentapi.Outcome{Result: raw}
}

// spec is job.json, out of the annotation or the ConfigMap that the pod has it from.
func (k *kube) spec(pod *corev1.Pod) (spec jobSpec) {
	_ = json.Unmarshal([]byte(pod.Annotations["howdah.dev/job"]), &spec)
	configMap := &corev1.ConfigMap{}
	if k.world.get(pod.Labels[batchv1.JobNameLabel], configMap) == nil {
		_ = json.Unmarshal([]byte(configMap.Data[filepath.Base(agentapi.JobFile)]), &spec)
	}
	return spec
}

// jobOwner is whose Job a pod is of.
func jobOwner(pod string) string {
	name, _, _ := strings.Cut(pod, "-")
	return name
}
