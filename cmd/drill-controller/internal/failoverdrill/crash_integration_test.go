//go:build integration

package failoverdrill

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/jobs"
	"howdah.dev/howdah/test/testkit/mortal"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is one namespace with the cluster shop, and a stand-in for the db-controller and the Job. The drill-controller acts with its own
// account, under the policies of the chart.
type lab struct {
	*testing.T
	client.Client
	ns string

	mu sync.Mutex
	// outcome of the Job once it is told to stop; refuses: the db-controller causes no fault.
	outcome *agentapi.Outcome
	refuses string
	silent  bool // the Job writes no rows
	faults  []types.UID
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, ns: apiserver.Namespace(t, c)}
	l.measures(agentapi.FailoverDrillResult{Acknowledged: 900, LongestGapMilliseconds: 1200, LongestGapKeptMilliseconds: 1300})
	l.create(l.shop())
	apiserver.StandIn(t, l.ns, l.standIn)
	return l
}

func (l *lab) measures(result agentapi.FailoverDrillResult) {
	raw, err := json.Marshal(result)
	if err != nil {
		l.Fatal(err)
	}
	l.outcome = &agentapi.Outcome{Result: raw}
}

func (l *lab) create(object client.Object) {
	l.Helper()
	if err := l.Create(context.Background(), object); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.ns, Name: name}
}

func (l *lab) shop() *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: l.meta("shop"), Spec: v1alpha1.PostgresClusterSpec{
		Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
	}}
}

func (l *lab) standIn(ctx context.Context) {
	drills, all := &v1alpha1.FailoverDrillList{}, &batchv1.JobList{}
	shop := &v1alpha1.PostgresCluster{}
	if l.List(ctx, drills, client.InNamespace(l.ns)) != nil || l.List(ctx, all, client.InNamespace(l.ns)) != nil ||
		l.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: "shop"}, shop) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asDBController(ctx, shop, drills.Items)
	for i := range all.Items {
		l.asJob(ctx, &all.Items[i], drills.Items)
	}
}

// asDBController causes faults as the db-controller does: it records each first.
func (l *lab) asDBController(ctx context.Context, shop *v1alpha1.PostgresCluster, drills []v1alpha1.FailoverDrill) {
	before, status := shop.DeepCopy(), &shop.Status
	status.ObservedGeneration = shop.Generation
	if len(status.Instances) == 0 {
		status.Primary, status.ReadyInstances, status.Instances = "shop-0", 3, instances("shop-0", "p0")
		status.Connection = &v1alpha1.ConnectionStatus{Host: "shop-rw", ConfigMap: "shop-connection"}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunning})
	}
	drill, response := protocol.FailoverDrillOf(shop, drills), status.FailoverDrill
	switch {
	case drill == nil:
		status.FailoverDrill = nil
	case response == nil || response.UID != drill.UID:
		status.FailoverDrill = &v1alpha1.ClusterFailoverDrill{Name: drill.Name, UID: drill.UID, State: v1alpha1.FailoverDrillPrepared}
	case drill.Status.Request.Inject != nil && response.State == v1alpha1.FailoverDrillPrepared && l.refuses != "":
		response.State, response.Message = v1alpha1.FailoverDrillRefused, l.refuses
	case drill.Status.Request.Inject != nil && response.State == v1alpha1.FailoverDrillPrepared:
		response.State, response.InjectedAt = v1alpha1.FailoverDrillInjected, ptr.To(metav1.Now())
		status.DrilledFaults = append(status.DrilledFaults, metav1.Now())
		status.Primary, status.Instances = "shop-1", instances("shop-1", "p1")
		l.faults = append(l.faults, drill.UID)
	}
	if l.Status().Patch(ctx, shop, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})) != nil && len(status.DrilledFaults) > len(before.Status.DrilledFaults) {
		l.faults = l.faults[:len(l.faults)-1]
	}
}

// instances of which the first named one is the primary, in a pod of another UID.
func instances(primary string, uid types.UID) (all []v1alpha1.InstanceStatus) {
	for i := range 3 {
		s := v1alpha1.InstanceStatus{Name: fmt.Sprintf("shop-%d", i), PodUID: uid, Role: v1alpha1.RoleReplica, Ready: true, Streaming: true, Eligible: true}
		if s.Name == primary {
			s.Role, s.Streaming, s.Eligible = v1alpha1.RolePrimary, false, false
		}
		all = append(all, s)
	}
	return all
}

// asJob reports progress as the Job does, with its own field manager, and ends when it is told to.
func (l *lab) asJob(ctx context.Context, job *batchv1.Job, drills []v1alpha1.FailoverDrill) {
	var outcome *agentapi.Outcome
	for i := range drills {
		d := &drills[i]
		if !metav1.IsControlledBy(job, d) || l.silent {
			continue
		}
		if d.Status.Progress == nil {
			progress := fmt.Sprintf(`{"apiVersion":"howdah.dev/v1alpha1","kind":"FailoverDrill","metadata":{"name":%q,"uid":%q},"status":{"progress":{"phase":"Writing","updatedAt":%q}}}`,
				d.Name, d.UID, time.Now().UTC().Format(time.RFC3339))
			_ = l.Status().Patch(ctx, d, client.RawPatch(types.ApplyPatchType, []byte(progress)), client.FieldOwner("howdah-worker"), client.ForceOwnership)
		}
		if d.Status.StopWriting || l.outcome != nil && l.outcome.Error != nil && d.Status.InjectedAt != nil {
			outcome = l.outcome
		}
	}
	jobs.Run(ctx, l.Client, job, outcome)
}

// begin starts a controller, which dies with its first write if it is mortal.
func (l *lab) begin(process *mortal.Process) (stop func()) {
	return apiserver.Run(l.T, l.ns, func(_ context.Context, mgr ctrl.Manager) error {
		r := New(manager.NewDependencies(mgr, "drill-controller", manager.Settings{Agent: workload.Agent{Image: "registry.local/howdah/agent:1"}}))
		r.settle = 100 * time.Millisecond
		if process != nil {
			r.Client = process.Wrap(r.Client)
		}
		return r.SetupWithManager(mgr)
	}, apiserver.As(l.T, "drill-controller"))
}

func (l *lab) patch(d *v1alpha1.FailoverDrill, spec string) {
	l.Helper()
	if err := l.Patch(context.Background(), d, client.RawPatch(types.MergePatchType, []byte(spec))); err != nil {
		l.Fatal(err)
	}
}

// reach waits until something holds of the drill.
func (l *lab) reach(d *v1alpha1.FailoverDrill, what string, holds func() bool) {
	l.Helper()
	if !apiserver.Eventually(l.ns, 4*time.Minute, func() bool {
		err := l.Get(context.Background(), client.ObjectKeyFromObject(d), d)
		if client.IgnoreNotFound(err) != nil {
			l.Fatal(err)
		}
		return err == nil && holds() || err != nil && what == "it is gone"
	}) {
		l.Fatalf("not within four minutes: %s; it is %+v", what, d.Status)
	}
}

// ends waits until the drill has ended so.
func (l *lab) ends(d *v1alpha1.FailoverDrill, status metav1.ConditionStatus, reason string) {
	l.Helper()
	l.reach(d, string(status)+" "+reason, func() bool {
		said := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionSucceeded)
		return d.Status.CompletedAt != nil && said != nil && said.Status == status && said.Reason == reason
	})
}

// nothingLeft: no object of the Job is left, and the cluster is nobody's.
func (l *lab) nothingLeft() {
	l.Helper()
	ctx := context.Background()
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		if err := l.List(ctx, list, client.InNamespace(l.ns)); err != nil || meta.LenList(list) > 0 {
			l.Errorf("%d objects are left in %T: %v", meta.LenList(list), list, err)
		}
	}
	shop := l.shop()
	if err := l.Get(ctx, client.ObjectKeyFromObject(shop), shop); err != nil || shop.Status.FailoverDrill != nil {
		l.Errorf("the cluster still responds: %+v %v", shop.Status.FailoverDrill, err)
	}
}

// stories are ways that a drill can go, and how many faults each causes.
var stories = map[string]struct {
	change func(*v1alpha1.FailoverDrillSpec)
	before func(*lab)
	tell   func(*lab, *v1alpha1.FailoverDrill)
	faults int
	// mortal: it is told of controllers that die with each write, too.
	mortal bool
}{
	"it measures": {mortal: true, tell: func(l *lab, d *v1alpha1.FailoverDrill) {
		l.ends(d, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
		if r := d.Status.Result; r.RowsAcknowledged != 900 || r.LongestGap.Duration != 1200*time.Millisecond || r.Primary != "shop-1" {
			l.Errorf("%+v", r)
		}
	}, faults: 1},
	"a limit is exceeded": {
		change: func(s *v1alpha1.FailoverDrillSpec) {
			s.Limits = &v1alpha1.FailoverDrillLimits{MaxGap: &metav1.Duration{Duration: time.Second}}
		},
		tell: func(l *lab, d *v1alpha1.FailoverDrill) {
			l.ends(d, metav1.ConditionFalse, v1alpha1.ReasonLimitExceeded)
		},
		faults: 1,
	},
	"it expires": {
		change: func(s *v1alpha1.FailoverDrillSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](1) },
		tell:   func(l *lab, d *v1alpha1.FailoverDrill) { l.reach(d, "it is gone", func() bool { return false }) },
		faults: 1,
	},
	"the db-controller refuses": {
		before: func(l *lab) { l.refuses = "Not now." },
		tell: func(l *lab, d *v1alpha1.FailoverDrill) {
			l.ends(d, metav1.ConditionFalse, v1alpha1.ReasonInjectionRefused)
		},
	},
	"its Job fails": {
		mortal: true,
		before: func(l *lab) {
			l.outcome = &agentapi.Outcome{Error: &agentapi.JobError{Reason: "Unreachable", Message: "gone", Final: true}}
		},
		tell:   func(l *lab, d *v1alpha1.FailoverDrill) { l.ends(d, metav1.ConditionFalse, v1alpha1.ReasonWriterFailed) },
		faults: 1,
	},
	"it is cancelled while its Job begins": {
		before: func(l *lab) { l.silent = true },
		tell: func(l *lab, d *v1alpha1.FailoverDrill) {
			l.reach(d, "its Job exists", func() bool {
				return l.Get(context.Background(), client.ObjectKey{Namespace: l.ns, Name: "d-failover-drill"}, &batchv1.Job{}) == nil
			})
			l.patch(d, `{"spec":{"cancel":true}}`)
			l.ends(d, metav1.ConditionFalse, v1alpha1.ReasonCancelled)
		},
	},
}

// TestEachDrillEndsAsItShouldAndLeavesNothing has each way of a drill end with one fault at most.
func TestEachDrillEndsAsItShouldAndLeavesNothing(t *testing.T) {
	for name := range stories {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.try(name, func() { l.begin(nil) })
		})
	}
}

// TestEachWriteMayBeTheLastOfAProcess has the controller die with each write, and begin again on a cache that is behind.
func TestEachWriteMayBeTheLastOfAProcess(t *testing.T) {
	caches := map[string]mortal.Behind{
		"behind on drills": mortal.Only(&v1alpha1.FailoverDrill{}), "behind on the rest": mortal.AllBut(&v1alpha1.FailoverDrill{}),
	}
	for name, story := range mortal.Some(stories) {
		for caches, behind := range mortal.Draw(caches) {
			if !story.mortal {
				continue
			}
			t.Run(name+", "+caches, func(t *testing.T) {
				l := newLab(t)
				var wrote func() []string
				l.try(name, func() { wrote = mortal.Run(t, l.Client, &v1alpha1.FailoverDrill{}, behind, l.begin) })
				if writes := wrote(); len(writes) < 6 {
					t.Errorf("only %d processes died, with:\n%s", len(writes), strings.Join(writes, "\n"))
				}
			})
		}
	}
}

func (l *lab) try(name string, start func()) {
	l.Helper()
	story := stories[name]
	if story.before != nil {
		l.mu.Lock()
		story.before(l)
		l.mu.Unlock()
	}
	d := &v1alpha1.FailoverDrill{ObjectMeta: l.meta("d"), Spec: v1alpha1.FailoverDrillSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod}, MaxPerWeek: 3,
	}}
	if story.change != nil {
		story.change(&d.Spec)
	}
	l.create(d)
	start()
	story.tell(l, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) != story.faults {
		l.Errorf("%d faults were caused", len(l.faults))
	}
	l.nothingLeft()
}

// TestTheAccountOfTheControllerReachesNothingElse tries what somebody who has taken the account over would.
func TestTheAccountOfTheControllerReachesNothingElse(t *testing.T) {
	l := newLab(t)
	apiserver.InstallBoundaries(t)
	d := &v1alpha1.FailoverDrill{ObjectMeta: l.meta("d"), Spec: v1alpha1.FailoverDrillSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover}, MaxPerWeek: 1,
	}}
	l.create(d)
	l.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop-0", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "p"}}}})
	thief := apiserver.ClientAs(t, "drill-controller")
	r := &Reconciler{Dependencies: manager.Dependencies{Agent: workload.Agent{Image: "registry.local/howdah/agent:1"}}}
	o := world()
	o.drill, o.cluster.Status.Connection = d, &v1alpha1.ConnectionStatus{Host: "shop-rw"}
	job := func(change func(*workload.Job)) error {
		j := r.writer(o)
		change(&j)
		return j.Ensure(t.Context(), thief)
	}
	for name, try := range map[string]func() error{
		"it deletes a pod": func() error { return thief.Delete(t.Context(), &corev1.Pod{ObjectMeta: l.meta("shop-0")}) },
		"it reads Secrets": func() error { return thief.List(t.Context(), &corev1.SecretList{}, client.InNamespace(l.ns)) },
		"it changes a cluster": func() error {
			return thief.Patch(t.Context(), l.shop(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"switchover":{"token":"x"}}}`)))
		},
		"its Job mounts the superuser's password": func() error {
			return job(func(j *workload.Job) { j.Secrets = map[string][]string{"shop-superuser": {"password"}} })
		},
		"its Job mounts another certificate": func() error { return job(func(j *workload.Job) { j.ClientTLSSecret = "shop-instance" }) },
		"its Job mounts a volume":            func() error { return job(func(j *workload.Job) { j.DataClaim = "data-shop-0" }) },
		"its Job has another name":           func() error { return job(func(j *workload.Job) { j.Name = "d-backup" }) },
		"its Job runs another image":         func() error { return job(func(j *workload.Job) { j.Image, j.Agent.Image = "evil:1", "evil:1" }) },
		"its Job may patch a cluster": func() error {
			return job(func(j *workload.Job) {
				j.Name, j.Progress = "e-failover-drill", &agentapi.Object{Resource: "postgresclusters", Name: "shop"}
			})
		},
	} {
		if try() == nil {
			t.Errorf("this works: %s", name)
		}
	}
	if err := job(func(j *workload.Job) { j.Name = "f-failover-drill" }); err != nil {
		t.Errorf("its own Job is refused: %v", err)
	}
}
