package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// Fault is something that is done to a cluster. It returns when the fault has had its effect, and is healed.
type Fault struct {
	Name string
	do   func(*round)
	// Volumes that the cluster must have for it.
	Volumes Volumes
	// NeedsControllers: it is asked of the controllers, or done to them.
	NeedsControllers bool
	// TwoAgents: it needs Options.OldAgent.
	TwoAgents bool
	// Orderly: it loses no acknowledged row, whatever the replication.
	Orderly bool
	// Steady: the primary stays the same.
	Steady bool
}

// Faults are all there are, in the order of reports.
func Faults() []Fault {
	return []Fault{
		{Name: "switchover", do: switchover, NeedsControllers: true, Orderly: true},
		{Name: "graceful-delete", do: func(r *round) { r.deletePod() }, Orderly: true},
		{Name: "delete-all", do: deleteAll, Orderly: true},
		{Name: "hibernate", do: hibernate, NeedsControllers: true, Orderly: true},
		{Name: "force-delete", do: func(r *round) { r.deletePod(client.GracePeriodSeconds(0)) }},
		{Name: "kill-postmaster", do: killPostmaster},
		{Name: "kill-agent", do: func(r *round) { r.killContainer("--program", "agent") }},
		{Name: "kill-pod", do: func(r *round) { r.killContainer() }},
		{Name: "stop-postmaster", do: func(r *round) { r.stopProgram("postgres") }},
		{Name: "stop-agent", do: func(r *round) { r.stopProgram("agent") }},
		{Name: "node-kill", do: nodeKill},
		{Name: "node-freeze", do: nodeFreeze},
		{Name: "partition", do: partition},
		{Name: "packet-loss", do: packetLoss, Steady: true},
		{Name: "api-away", do: apiAway, Steady: true},
		{Name: "api-flapping", do: apiFlapping},
		{Name: "api-slow", do: apiSlow, Steady: true},
		{Name: "controllers-down", do: controllersDown, NeedsControllers: true},
		{Name: "disk-full", do: diskFull, Volumes: Limited},
		{Name: "disk-stall", do: diskStall, Volumes: Stalling},
		{Name: "lost-volume", do: lostVolume},
		{Name: "old-volume", do: oldVolume},
		{Name: "old-lease", do: oldLease, NeedsControllers: true},
		{Name: "deleted-lease", do: deletedLease},
		{Name: "renewal-change", do: renewalChange},
		{Name: "agent-upgrade", do: agentUpgrade, NeedsControllers: true, TwoAgents: true},
		{Name: "double", do: double},
	}
}

// Find picks faults by name; without a name it is all of them.
func Find(names ...string) ([]Fault, error) {
	if len(names) == 0 {
		return Faults(), nil
	}
	byName, all := map[string]Fault{}, []string{}
	for _, fault := range Faults() {
		byName[fault.Name], all = fault, append(all, fault.Name)
	}
	var found []Fault
	for _, name := range names {
		fault, known := byName[name]
		if !known {
			return nil, fmt.Errorf("no fault %q: there are %s", name, strings.Join(all, ", "))
		}
		found = append(found, fault)
	}
	return found, nil
}

func switchover(r *round) {
	token, cluster := fmt.Sprint(time.Now().UnixNano()), &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	r.strike()
	r.Merge(cluster, fmt.Sprintf(`{"spec":{"switchover":{"token":%q}}}`, token))
	r.Await(cluster, "the switchover to end", func() bool {
		done := cluster.Status.Switchover
		return done != nil && done.Token == token && done.State != v1alpha1.SwitchoverRunning
	})
	if done := cluster.Status.Switchover; done.State != v1alpha1.SwitchoverDone {
		r.Fatalf("the switchover was refused: %s", done.Message)
	}
}

// deletePod deletes the primary's pod and waits for the one that takes its place.
func (r *round) deletePod(options ...client.DeleteOption) {
	r.Helper()
	r.strike()
	r.Must(r.Delete(r.Context(), r.primary.DeepCopy(), options...))
	r.awaitPod("another pod", func(pod *corev1.Pod) bool { return pod.UID != r.primary.UID })
}

// deleteAll deletes all pods of the database in order, while clients write hundreds of rows a second.
func deleteAll(r *round) {
	r.load()
	pods, err := r.pods(r.Context())
	r.Must(err)
	r.strike()
	for i := range pods {
		r.Must(r.Delete(r.Context(), pods[i].DeepCopy()))
	}
	r.until("other pods", recoveryTime, func(ctx context.Context) error {
		now, err := r.pods(ctx)
		if err != nil {
			return err
		}
		if len(now) < len(pods) {
			return fmt.Errorf("there are %d", len(now))
		}
		for _, pod := range now {
			if slices.ContainsFunc(pods, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
				return fmt.Errorf("%s is still the same", pod.Name)
			}
		}
		return nil
	})
}

// hibernate stops the cluster, while clients write hundreds of rows a second, and wakes it.
func hibernate(r *round) {
	r.load()
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	r.strike()
	r.Merge(cluster, `{"spec":{"hibernate":true}}`)
	r.AwaitReason(cluster, v1alpha1.ConditionReady, v1alpha1.ReasonHibernated, "")
	wake := r.healing(func() { r.Merge(cluster, `{"spec":{"hibernate":false}}`) })
	r.until("the end of all pods", recoveryTime, func(ctx context.Context) error {
		pods, err := r.pods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	wake()
}

// awaitPod waits until there is something about the pod that was the primary's.
func (r *round) awaitPod(what string, holds func(*corev1.Pod) bool) {
	r.Helper()
	r.until(what, recoveryTime, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := r.Get(ctx, client.ObjectKeyFromObject(r.primary), pod)
		if err == nil && !holds(pod) {
			err = errors.New("not so far")
		}
		return err
	})
}

// id of a pod on the test bed.
func id(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func killPostmaster(r *round) {
	before := r.started(r.primary)
	r.strike()
	r.Kube("signal", id(r.primary), "KILL", "--program", "postgres")
	r.awaitServer(before)
}

// started is when the server of a pod was started.
func (r *round) started(pod *corev1.Pod) time.Time {
	r.Helper()
	var at time.Time
	r.until("the time when "+pod.Name+" was started", time.Minute, func(ctx context.Context) (err error) {
		at, err = ask[time.Time](ctx, r.at(pod.Status.PodIP, home), startTime)
		return err
	})
	return at
}

const startTime = "SELECT pg_postmaster_start_time()"

// killContainer kills processes of the primary's pod, its first one among them, and waits for another container.
func (r *round) killContainer(program ...string) {
	r.Helper()
	running := containers(r.primary)
	r.strike()
	r.Kube(append([]string{"signal", id(r.primary), "KILL"}, program...)...)
	r.awaitPod("another container", func(pod *corev1.Pod) bool { return containers(pod) != running })
}

// containers that run in a pod.
func containers(pod *corev1.Pod) string {
	var ids []string
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			ids = append(ids, status.ContainerID)
		}
	}
	return strings.Join(ids, " ")
}

// stopProgram stops a program of the primary's pod where it is, until somebody has done something about it.
func (r *round) stopProgram(program string) {
	r.Helper()
	before := r.started(r.primary)
	r.strike()
	r.Kube("signal", id(r.primary), "STOP", "--program", program)
	heal := r.healing(func() {
		// It may be gone, and another one in its place.
		_ = exec.Command(place.Bed, "signal", id(r.primary), "CONT", "--program", program).Run()
	})
	r.awaitServer(before)
	heal()
}

// awaitServer waits until the Service leads to a server that was started later, or to another one.
func (r *round) awaitServer(before time.Time) {
	r.Helper()
	r.until("another server", recoveryTime, func(ctx context.Context) error {
		acks := r.fresh.Acks()
		if acks[len(acks)-1].Server != r.primary.Status.PodIP {
			return nil
		}
		at, err := ask[time.Time](ctx, r.target, startTime)
		if err == nil && at.Equal(before) {
			err = errors.New("the server is the same")
		}
		return err
	})
	r.awaitRows(r.fresh, rows)
}
