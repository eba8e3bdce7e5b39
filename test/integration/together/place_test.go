//go:build integration

package together

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

const clusterName = "shop"

const (
	// patience is how long a round may take, and tellLimit who waits to say behind whom. Machines are slow at times.
	patience  = 6 * time.Minute
	tellLimit = 2 * time.Minute
)

// place is one namespace with one cluster, and its volume.
type place struct {
	*testing.T
	ns string
	// fates of who asks, by name.
	fates map[string]*fate

	mu sync.Mutex
	// volume is what is on it, by data generation, and writers the pods that may write to it.
	volume  map[string]string
	writers map[string]bool
	// gated is since when the work of a holder waits for others to say that they wait for it.
	gated map[string]time.Time
	// shown counts the holders whom others said to be waiting for.
	shown int
}

// jobSpec is of job.json what a worker acts on here.
type jobSpec struct {
	DataGeneration, FromGeneration, ToGeneration string
}

// start is a pod's beginning. Who may write has to be alone, and what a server is started on has to be whole.
func (p *place) start(err error, pod *corev1.Pod) {
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.Errorf("%s: start pod %s: %v", p.ns, pod.Name, err)
	}
	if err != nil || !writes(pod) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.writers) > 0 {
		p.Errorf("%s: pod %s was started while %v might write to the volume", p.ns, pod.Name, slices.Collect(maps.Keys(p.writers)))
	}
	p.writers[pod.Name] = true
	if g := pod.Annotations[annotationGeneration]; component(pod) == workload.ComponentInstance && p.volume[g] == "" {
		p.Errorf("%s: PostgreSQL was started on data generation %s, which isn't on the volume: %v", p.ns, g, p.volume)
	}
}

// stop is a pod's end.
func (p *place) stop(err error, pod *corev1.Pod) {
	if err == nil || apierrors.IsNotFound(err) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.writers, pod.Name)
	}
}

// remove is what an agent does with released data generations: it keeps the one that it runs.
func (p *place) remove(released []string, runs string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, generation := range released {
		if generation != runs {
			delete(p.volume, generation)
		}
	}
}

// work is what a worker does; nil: it is not done yet.
func (p *place) work(s *sight, job *batchv1.Job, spec jobSpec) *agentapi.Outcome {
	owner := metav1.GetControllerOf(job)
	if owner == nil {
		return nil
	}
	fate := p.fates[owner.Name]
	switch component(job) {
	case workload.ComponentInit:
		return p.write(spec.DataGeneration, "first", nil)
	case workload.ComponentUpgradeCheck:
		if fate.obstacle {
			return result(agentapi.UpgradeCheckResult{Findings: []agentapi.Finding{{Severity: string(v1alpha1.FindingError), Check: "x", Message: "it can't be upgraded"}}})
		}
		return result(agentapi.UpgradeCheckResult{})
	}
	if !p.othersWait(s, owner.Kind+" "+owner.Name) {
		return nil
	}
	switch {
	case fate.fails:
		return &agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "it is corrupt", Final: true}}
	case component(job) == workload.ComponentRestore:
		return p.write(spec.DataGeneration, "restored by "+owner.Name, agentapi.RestoreResult{
			DataGeneration: spec.DataGeneration, SystemIdentifier: systemIdentifier, MajorVersion: 17, ReachedLSN: "0/7000000", Timeline: 2,
		})
	}
	if p.volume[spec.FromGeneration] == "" {
		p.Errorf("%s: %s works on data generation %s, which isn't there", p.ns, job.Name, spec.FromGeneration)
	}
	return p.write(spec.ToGeneration, "upgraded by "+owner.Name, agentapi.UpgradeResult{
		DataGeneration: spec.ToGeneration, SystemIdentifier: systemIdentifier, MajorVersion: 18,
	})
}

// write is a worker's end: a whole data generation is on the volume.
func (p *place) write(generation, content string, done any) *agentapi.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volume[generation] = content
	return result(done)
}

func result(done any) *agentapi.Outcome {
	raw, _ := json.Marshal(done)
	return &agentapi.Outcome{Result: raw}
}

// requester is a Restore or an Upgrade, as far as both are the same.
type requester struct {
	client.Object
	ended bool
	// content: it has its data in use, and waits for a person's word alone.
	content bool
	said    *metav1.Condition
}

func (s *sight) requesters() (all []requester) {
	for i := range s.restores.Items {
		r := &s.restores.Items[i]
		all = append(all, requester{
			r, r.Status.CompletedAt != nil, r.Status.RestoredAt != nil && r.Status.VolumeLockRequest == nil,
			meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded),
		})
	}
	for i := range s.upgrades.Items {
		u := &s.upgrades.Items[i]
		all = append(all, requester{
			u, u.Status.SettledAt != nil || u.Status.CompletedAt != nil && u.Status.UpAt == nil,
			u.Status.UpAt != nil && u.Status.VolumeLockRequest == nil, meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ConditionSucceeded),
		})
	}
	return all
}

// kindOf an object that was read from a list, which has lost it.
func kindOf(o client.Object) string {
	if _, isRestore := o.(*v1alpha1.Restore); isRestore {
		return v1alpha1.KindRestore
	}
	return v1alpha1.KindUpgrade
}

// othersWait reports that everybody else who wants the volume says behind whom it waits: until then the holder works on.
func (p *place) othersWait(s *sight, holder string) bool {
	waiting := 0
	for _, a := range s.requesters() {
		if a.ended || a.content || !a.GetDeletionTimestamp().IsZero() || p.fates[a.GetName()].cancelled || kindOf(a.Object)+" "+a.GetName() == holder {
			continue
		}
		if a.said == nil || !strings.Contains(a.said.Message, holder) {
			p.Helper()
			return p.late(holder, a)
		}
		waiting++
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown += min(waiting, 1)
	return true
}

// late lets the holder continue if somebody doesn't say in time that it waits for it, which is an error.
func (p *place) late(holder string, a requester) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, gated := p.gated[holder]
	if !gated {
		p.gated[holder] = time.Now()
	}
	if !gated || time.Since(since) < tellLimit {
		return false
	}
	p.Errorf("%s: %s has the volume, and %s doesn't say that it waits for it: %s", p.ns, holder, a.GetName(), told(a.said))
	return true
}

func told(c *metav1.Condition) string {
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}
