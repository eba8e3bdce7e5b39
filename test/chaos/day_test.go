//go:build chaos

package chaos

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// TestADayNeedsNobody has a cluster in which everything is automatic live through a day that is made short: readers come and go, the disk
// fills, the suite has a new image, backups and a failover drill are due. Nobody changes the cluster; no acknowledged row is lost; and for
// everything that is done there is an event with its reason.
func TestADayNeedsNobody(t *testing.T) {
	d := NewDay(t, int32(*version))
	generation := d.cluster.Generation
	d.kept, d.fresh = d.client("kept", d.target, true), d.client("fresh", d.target, false)
	d.awaitRows(d.kept, rows)
	d.awaitRows(d.fresh, rows)
	endRush, endFilling := d.rush(), d.fill()
	defer endRush()
	defer endFilling()
	d.releaseImage()

	d.follow("the image of the suite is shown and waits for its window", func() bool {
		return d.cluster.Status.PendingUpdate != nil && d.cluster.Status.PendingUpdate.Image == d.image
	})
	d.follow("the volumes have grown", func() bool {
		grown := d.cluster.Status.Storage
		return grown != nil && d.volumesHave(grown.Size)
	})
	endFilling()
	d.follow("there is a replica more for the readers", func() bool { return d.cluster.Status.ReadyInstances == 3 })
	d.follow("all run in the image of the suite", func() bool { return d.allRun(t.Context()) == nil })
	drill := d.awaitDrill()
	t.Logf("%s: the failover drill has measured %+v", d.clock(time.Now()), drill.Status.Result)
	d.follow("the instances have larger requests", func() bool {
		applied := d.cluster.Status.AppliedRequests()
		return applied != nil && applied.Requests.Cpu().String() != "50m"
	})
	endRush()
	d.follow("the replica that nobody needs any more is gone", func() bool {
		return d.cluster.Status.ReadyInstances == 2 && len(d.cluster.Status.Instances) == 2
	})
	d.AwaitTrue(d.cluster, v1alpha1.ConditionUpToDate)
	d.awaitWhole()
	d.judgeDay(generation)
}

// awaitDrill is the drill that the schedule has made, once it has succeeded.
func (d *Day) awaitDrill() *v1alpha1.FailoverDrill {
	d.Helper()
	drills := &v1alpha1.FailoverDrillList{}
	d.follow("the failover drill is due", func() bool {
		return d.List(d.Context(), drills, client.InNamespace(d.Namespace)) == nil && len(drills.Items) == 1
	})
	drill := &drills.Items[0]
	d.AwaitFor(stepLimit, drill, "its end", func() bool { return drill.Status.CompletedAt != nil })
	d.AwaitTrue(drill, v1alpha1.ConditionSucceeded)
	return drill
}

// judgeDay fails the test for a lost row, for a person's hand, and for what has no event.
func (d *Day) judgeDay(generation int64) {
	d.Helper()
	result := d.judge(time.Now())
	d.Logf("%d rows of two clients in %s; %+v", len(d.kept.Acks())+len(d.fresh.Acks()), d.clock(time.Now()), result)
	d.complain(result)
	d.Must(d.Get(d.Context(), client.ObjectKeyFromObject(d.cluster), d.cluster))
	if d.cluster.Generation != generation {
		d.Errorf("somebody has changed spec: %d became %d", generation, d.cluster.Generation)
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReplicated, v1alpha1.ConditionUpdated, v1alpha1.ConditionStorageHealthy, v1alpha1.ConditionArchiving} {
		if c := place.Condition(d.cluster, kind); c == nil || c.Status != "True" {
			d.Errorf("in the end %s: %s", kind, place.Describe(d.cluster))
		}
	}
	backups := &v1alpha1.BackupList{}
	d.Must(d.List(d.Context(), backups, client.InNamespace(d.Namespace)))
	if len(backups.Items) < 2 {
		d.Errorf("there were %d scheduled backups", len(backups.Items))
	}
	for i := range backups.Items {
		d.AwaitTrue(&backups.Items[i], v1alpha1.ConditionSucceeded)
	}
	var told strings.Builder
	for _, e := range d.events() {
		line := e.InvolvedObject.Kind + " " + e.InvolvedObject.Name + " " + e.Reason + ": " + e.Message + "\n"
		told.WriteString(d.clock(eventTime(e)) + " " + line)
	}
	d.Logf("what the events say:\n%s", told.String())
	for _, want := range []string{
		"They grow automatically, because the volume of", "The number of instances changes from 2 to 3.", "The number of instances changes from 3 to 2.",
		"The image is being changed to " + d.image, "All instances are given requests of", "The fault DeletePrimaryPod is to hit",
	} {
		if !strings.Contains(told.String(), want) {
			d.Errorf("no event says: %s", want)
		}
	}
}
