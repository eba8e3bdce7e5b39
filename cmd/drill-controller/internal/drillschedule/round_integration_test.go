//go:build integration

package drillschedule

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/mortal"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is a namespace in which every drill ends as its cluster's name says.
type lab struct {
	*testing.T
	client.Client
	ns   string
	most atomic.Int64 // drills that ran at a time
}

func newLab(t *testing.T, clusters ...string) *lab {
	t.Helper()
	t.Parallel()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, ns: apiserver.Namespace(t, c)}
	for _, name := range clusters {
		l.create(&v1alpha1.PostgresCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name, Labels: map[string]string{"drill": "yes"}},
			Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
		})
	}
	l.create(&v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "other"},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	})
	apiserver.StandIn(t, l.ns, l.endDrills)
	return l
}

func (l *lab) create(object client.Object) {
	l.Helper()
	if err := l.Create(context.Background(), object); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) endDrills(ctx context.Context) {
	drills := &v1alpha1.FailoverDrillList{}
	if l.List(ctx, drills, client.InNamespace(l.ns)) != nil {
		return
	}
	running := int64(0)
	for i := range drills.Items {
		d := &drills.Items[i]
		if d.Status.CompletedAt != nil {
			continue
		}
		running++
		before := d.DeepCopy()
		d.Status.CompletedAt = ptr.To(metav1.Now())
		status, reason := metav1.ConditionTrue, v1alpha1.ReasonCompleted
		if d.Spec.Cluster.Name == "slow" {
			status, reason = metav1.ConditionFalse, v1alpha1.ReasonLimitExceeded
		}
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: reason})
		_ = l.Status().Patch(ctx, d, client.MergeFrom(before))
	}
	l.most.Store(max(l.most.Load(), running))
}

func (l *lab) begin(process *mortal.Process) (stop func()) {
	return apiserver.Run(l.T, l.ns, func(_ context.Context, mgr ctrl.Manager) error {
		r := New(manager.NewDependencies(mgr, "drill-controller", manager.Settings{}))
		if process != nil {
			r.Client = process.Wrap(r.Client)
		}
		return r.SetupWithManager(mgr)
	}, apiserver.As(l.T, "drill-controller"))
}

// once is a schedule of one round.
func (l *lab) once() *v1alpha1.FailoverDrillSchedule {
	s := &v1alpha1.FailoverDrillSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "day"}, Spec: v1alpha1.FailoverDrillScheduleSpec{
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"drill": "yes"}},
		Template:        v1alpha1.FailoverDrillTemplate{Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultSwitchover}},
	}}
	l.create(s)
	return s
}

func (l *lab) ends(s *v1alpha1.FailoverDrillSchedule, reason string) {
	l.Helper()
	if !apiserver.Eventually(l.ns, time.Minute, func() bool {
		if err := l.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
			l.Fatal(err)
		}
		said := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
		return said != nil && said.Reason == reason && s.Status.Round.CompletedAt != nil
	}) {
		l.Fatalf("not within a minute: %s; it is %+v", reason, s.Status)
	}
}

func (l *lab) drills() (of []string) {
	l.Helper()
	drills := &v1alpha1.FailoverDrillList{}
	if err := l.List(context.Background(), drills, client.InNamespace(l.ns)); err != nil {
		l.Fatal(err)
	}
	for i := range drills.Items {
		of = append(of, drills.Items[i].Spec.Cluster.Name)
	}
	return of
}

// TestARoundDrillsEachSelectedClusterOnceWhereverTheControllerDies has it die with each write.
func TestARoundDrillsEachSelectedClusterOnceWhereverTheControllerDies(t *testing.T) {
	l := newLab(t, "a", "b", "c")
	s := l.once()
	wrote := mortal.Run(t, l.Client, &v1alpha1.FailoverDrillSchedule{}, mortal.Only(&v1alpha1.FailoverDrillSchedule{}), l.begin)
	l.ends(s, v1alpha1.ReasonRoundCompleted)
	if drills := l.drills(); len(drills) != 3 || l.most.Load() > 1 {
		t.Errorf("drills of %v, %d at a time", drills, l.most.Load())
	}
	if writes := wrote(); len(writes) < 5 {
		t.Errorf("only %d processes died: %v", len(writes), writes)
	}
}

func TestARoundEndsWithAClusterThatLiesBeyondItsLimits(t *testing.T) {
	l := newLab(t, "a", "slow", "z")
	s := l.once()
	l.begin(nil)
	l.ends(s, v1alpha1.ReasonRoundStopped)
	if drills, last := l.drills(), s.Status.Round.Clusters[2]; len(drills) != 2 || last.Name != "z" || last.Result != resultSkipped {
		t.Errorf("drills of %v, and %+v", drills, last)
	}
}

// TestTheAccountOfTheControllerCreatesNoDrillsButThoseOfSchedules tries what somebody who has taken the account over would.
func TestTheAccountOfTheControllerCreatesNoDrillsButThoseOfSchedules(t *testing.T) {
	l := newLab(t, "a")
	apiserver.InstallBoundaries(t)
	thief := apiserver.ClientAs(t, "drill-controller")
	s := l.once()
	s.Status.Round = &v1alpha1.FailoverDrillRound{Due: metav1.Now()}
	for name, change := range map[string]func(*v1alpha1.FailoverDrill){
		"of nobody":               func(d *v1alpha1.FailoverDrill) { d.OwnerReferences = nil },
		"of another kind":         func(d *v1alpha1.FailoverDrill) { d.OwnerReferences[0].Kind = "Backup" },
		"of another schedule":     func(d *v1alpha1.FailoverDrill) { d.OwnerReferences[0].Name = "other" },
		"of a name of its own":    func(d *v1alpha1.FailoverDrill) { d.Name = "day-x" },
		"that nobody looks after": func(d *v1alpha1.FailoverDrill) { d.OwnerReferences[0].Controller = nil },
	} {
		drill := newDrill(s, "a")
		change(drill)
		if err := thief.Create(t.Context(), drill); err == nil {
			t.Errorf("this works: %s", name)
		}
	}
	if err := apiserver.ClientAs(t, "backup-controller").Create(t.Context(), newDrill(s, "a")); err == nil {
		t.Error("another controller creates drills")
	}
	if err := thief.Create(t.Context(), newDrill(s, "a")); err != nil {
		t.Errorf("its own drill is refused: %v", err)
	}
	if err := thief.Create(t.Context(), &v1alpha1.FailoverDrillSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "mine"}, Spec: s.Spec}); err == nil {
		t.Error("it creates a schedule")
	}
}
