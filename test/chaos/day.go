package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/writes"
)

const (
	dayLabel  = "drill"
	most      = 40 // connections of an instance
	readers   = 28 // that are there in the rush: more than two thirds of what clients can have
	mostData  = "1Gi"
	windowIn  = 10 * time.Minute // after the day began
	drillIn   = 20 * time.Minute
	stepLimit = 45 * time.Minute // for what follows from a load, which is measured for 20 minutes first
)

// Day is a cluster in which everything is automatic that can be.
type Day struct {
	*round
	cluster *v1alpha1.PostgresCluster
	image   string // of the suite, that comes during the day
}

// NewDay makes the cluster, with a schedule of backups and one of failover drills.
func NewDay(t *testing.T, version int32) *Day {
	t.Helper()
	s := newSubject(t, Sync)
	s.instances = 2
	d := &Day{round: &round{Subject: s}, cluster: s.NewCluster(name, version)}
	d.began = time.Now()
	d.GrowingVolumes(d.cluster, 3)
	d.cluster.Labels = map[string]string{dayLabel: "daily"}
	spec := &d.cluster.Spec
	spec.Instances, spec.Tuning = s.instances, v1alpha1.TuningAutomatic
	spec.Synchronous = &v1alpha1.Synchronous{Number: 1, Durability: v1alpha1.DurabilityPreferred}
	spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"max_connections": v1alpha1.ParameterValue(fmt.Sprint(most))}
	spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse(mostData), AtPercent: 75, StepPercent: 50}
	spec.Autoscale = &v1alpha1.Autoscale{
		Replicas: &v1alpha1.AutoscaleReplicas{
			Mode: v1alpha1.AutoscaleApply, Min: 1, Max: 2, SessionsPercent: ptr.To[int32](50), ShrinkAfter: &metav1.Duration{Duration: 10 * time.Minute},
		},
		Resources: &v1alpha1.AutoscaleResources{
			Mode: v1alpha1.AutoscaleApply, CPU: &v1alpha1.ResourceBounds{Min: resource.MustParse("50m"), Max: resource.MustParse("100m")},
		},
	}
	spec.Updates = &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic, Window: &v1alpha1.MaintenanceWindow{
		Schedule: daily(d.began.Add(windowIn)), Duration: metav1.Duration{Duration: 4 * time.Hour},
	}}
	spec.MaintenanceWindow = &v1alpha1.MaintenanceWindow{Schedule: "* * * * *", Duration: metav1.Duration{Duration: time.Hour}}
	d.Must(d.Create(t.Context(), d.cluster))
	d.AwaitTrue(d.cluster, v1alpha1.ConditionReady)
	d.target = d.findTarget()
	d.until("clients to reach the primary", recoveryTime, func(ctx context.Context) error { return writes.Prepare(ctx, d.target) })
	d.awaitWhole()
	d.schedule()
	return d
}

// daily is when a schedule is due once a day.
func daily(at time.Time) string {
	at = at.UTC()
	return fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
}

func (d *Day) schedule() {
	d.Helper()
	backups := &v1alpha1.BackupSchedule{ObjectMeta: d.Meta("backups"), Spec: v1alpha1.BackupScheduleSpec{
		Cluster: v1alpha1.LocalReference{Name: name}, Schedule: "*/15 * * * *",
	}}
	d.Must(d.Create(d.Context(), backups))
	drills := &v1alpha1.FailoverDrillSchedule{ObjectMeta: d.Meta("drills"), Spec: v1alpha1.FailoverDrillScheduleSpec{
		ClusterSelector: metav1.LabelSelector{MatchLabels: d.cluster.Labels}, Schedule: daily(d.began.Add(drillIn)),
		Template: v1alpha1.FailoverDrillTemplate{
			Fault:       v1alpha1.FailoverFault{Type: v1alpha1.FaultDeletePrimaryPod},
			Limits:      &v1alpha1.FailoverDrillLimits{MaxLostRows: ptr.To[int64](0)},
			StartWithin: &metav1.Duration{Duration: time.Hour},
		},
	}}
	d.Must(d.Create(d.Context(), drills))
}

// rush is when the readers come, until the function that it returns is called. Each keeps a session at the Service of the replicas, and asks
// it something all the time.
func (d *Day) rush() (end func()) {
	d.Helper()
	service := &corev1.Service{}
	d.Must(d.Get(d.Context(), client.ObjectKey{Namespace: d.Namespace, Name: name + "-ro"}, service))
	target := d.target
	target.Address, target.Patience = service.Spec.ClusterIP, 5*time.Second
	ctx, cancel := context.WithCancel(d.Context())
	var all sync.WaitGroup
	for range readers {
		all.Go(func() { read(ctx, target) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// read asks all the time until ctx ends, over sessions that it renews each half a minute, as pools of connections do: one that was there before
// its replica became the primary would stay there.
func read(ctx context.Context, target writes.Target) {
	pace := time.NewTicker(500 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		conn, err := target.Connect(ctx)
		for asked := 0; err == nil && asked < 60; asked++ {
			_, err = conn.Exec(ctx, "SELECT count(*) FROM generate_series(1, 10000)")
			pause(ctx, pace)
		}
		if conn != nil {
			writes.HangUp(conn)
		}
		pause(ctx, pace)
	}
}

func pause(ctx context.Context, pace *time.Ticker) {
	select {
	case <-ctx.Done():
	case <-pace.C:
	}
}

// fill has the data grow by a megabyte a second, until the function that it returns is called.
func (d *Day) fill() (end func()) {
	d.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	var all sync.WaitGroup
	all.Go(func() {
		pace := time.NewTicker(time.Second)
		defer pace.Stop()
		for ctx.Err() == nil {
			conn, err := d.target.Connect(ctx)
			if err == nil {
				_, err = conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS filling (n bigint, t text)")
			}
			for err == nil {
				_, err = conn.Exec(ctx, "INSERT INTO filling SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 1000) AS n")
				pause(ctx, pace)
			}
			if conn != nil {
				writes.HangUp(conn)
			}
			pause(ctx, pace)
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// releaseImage is a release of the suite that has another image of PostgreSQL: the same under another name, as a minor release would have one.
func (d *Day) releaseImage() {
	d.Helper()
	own := fmt.Sprintf("%d=registry.local/postgresql:%d", d.cluster.Spec.Version, d.cluster.Spec.Version)
	d.image = fmt.Sprintf("registry.local/postgresql:%d-%s", d.cluster.Spec.Version, d.Namespace)
	d.Kube("tag", strings.SplitN(own, "=", 2)[1], d.image)
	released := fmt.Sprintf("%d=%s", d.cluster.Spec.Version, d.image)
	d.Must(d.changeImages(d.Context(), own, released))
	d.Cleanup(func() { d.Must(d.changeImages(context.Background(), released, own)) })
}

func (d *Day) changeImages(ctx context.Context, from, to string) error {
	deployment := &appsv1.Deployment{}
	if err := d.Get(ctx, client.ObjectKey{Namespace: "howdah-system", Name: "db-controller"}, deployment); err != nil {
		return err
	}
	args := deployment.Spec.Template.Spec.Containers[0].Args
	for i, arg := range args {
		if images, found := strings.CutPrefix(arg, "--postgres-images="); found {
			all := strings.Split(images, ",")
			at := slices.Index(all, from)
			if at < 0 {
				return fmt.Errorf("the suite's images are %s, without %s", images, from)
			}
			all[at] = to
			args[i] = "--postgres-images=" + strings.Join(all, ",")
		}
	}
	return d.Update(ctx, deployment)
}

// follow waits for what is done to the cluster without anybody's help.
func (d *Day) follow(what string, holds func() bool) {
	d.Helper()
	d.AwaitFor(stepLimit, d.cluster, what, holds)
	d.Logf("%s: %s", d.clock(time.Now()), what)
}

// clock is how long the day has lasted at a time.
func (d *Day) clock(at time.Time) string { return at.Sub(d.began).Truncate(time.Second).String() }

// volumesHave says that all volumes have a size.
func (d *Day) volumesHave(size resource.Quantity) bool {
	for i := range d.cluster.Status.Instances {
		storage := d.cluster.Status.Instances[i].Storage
		if storage == nil || storage.Capacity == nil || storage.Capacity.Cmp(size) != 0 {
			return false
		}
	}
	return true
}

// allRun says that all instances run in the image that the suite has released.
func (d *Day) allRun(ctx context.Context) error {
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		if has := pods[i].Spec.Containers[0].Image; has != d.image {
			return fmt.Errorf("%s runs in %s", pods[i].Name, has)
		}
	}
	return nil
}

// events that the suite wrote, in their order.
func (d *Day) events() []corev1.Event {
	d.Helper()
	list := &corev1.EventList{}
	d.Must(d.List(d.Context(), list, client.InNamespace(d.Namespace)))
	own := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return !strings.HasPrefix(e.InvolvedObject.APIVersion, v1alpha1.GroupVersion.Group)
	})
	slices.SortStableFunc(own, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	return own
}

func eventTime(e corev1.Event) time.Time {
	for _, at := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}
