package upgrade

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// With spec.transfer Link the new data shares files with the old data on the volume of the primary, which is of no use from then on.
// The way back is the volume of a replica: one that was stopped after the primary and has every commit, which its control file says.
// status.previous names it before anything is linked, so whatever leads back later leads there.

// links: files are linked.
func (o *observed) links() bool { return o.upgrade.Spec.Transfer == v1alpha1.TransferLink }

// linker has the steps of an upgrade that links files.
type linker struct{ *Reconciler }

// inspection is the Job that looks at one volume of the stopped cluster.
type inspection struct {
	volume v1alpha1.LockedVolume
	job    string
	state  workload.State
	lost   bool // nobody will hear of it again
}

func inspectJob(u *v1alpha1.Upgrade, volume v1alpha1.LockedVolume) string {
	return fmt.Sprintf("%s-data-%d", u.Name, ordinal(volume.Instance))
}

// ordinal of an instance; -1: the name has none.
func ordinal(instance string) int {
	n, err := strconv.Atoi(instance[strings.LastIndex(instance, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

// observeInspections reads the Jobs that look at the volumes, as far as it was recorded that there are any.
func (r linker) observeInspections(ctx context.Context, o *observed) error {
	if o.status().Link == nil {
		return nil
	}
	for _, volume := range o.status().Link.Volumes {
		name := inspectJob(o.upgrade, volume)
		state, err := workload.Observe(ctx, r.Live, r.Live, o.upgrade, name)
		if err != nil {
			return err
		}
		state.Explain(ctx, r.Live, o.upgrade.Namespace)
		o.inspections = append(o.inspections, inspection{volume: volume, job: name, state: state, lost: state.Lost(o.now)})
	}
	return nil
}

// replicaIsThere refuses a linked upgrade of a cluster without a replica, and waits for one that has everything.
func replicaIsThere(o *observed, _ manager.Images) flow.Outcome {
	if !o.links() {
		return flow.Next
	}
	possible := false
	for n := range o.cluster.DesiredInstances() {
		name := fmt.Sprintf("%s-%d", o.cluster.Name, n)
		possible = possible || name != o.cluster.Status.Primary && o.cluster.Spec.Delay(name) == 0
	}
	if o.cluster.DesiredInstances() < 2 || !possible {
		return flow.Stop(v1alpha1.ReasonNoWayBack, fmt.Sprintf(
			"With spec.transfer: Link the way back is the volume of a replica, and PostgresCluster %s has none but delayed ones. Create an Upgrade with spec.transfer: Copy, "+
				"or set spec.instances of the PostgresCluster to 2 or more.", o.cluster.Name))
	}
	for _, instance := range o.cluster.Status.Instances {
		if o.mayLeadBack(instance.Name) && instance.Role == v1alpha1.RoleReplica && instance.Ready && instance.Streaming {
			return flow.Next
		}
	}
	return flow.Wait(v1alpha1.ReasonNoWayBack, fmt.Sprintf(
		"With spec.transfer: Link the way back is the volume of a replica, and none of PostgresCluster %s follows its primary now. Waiting until one does.", o.cluster.Name))
}

// mayLeadBack: the instance is there to stay, and replays WAL at once.
func (o *observed) mayLeadBack(instance string) bool {
	n := ordinal(instance)
	return n >= 0 && n < int(o.cluster.DesiredInstances()) && o.cluster.Spec.Delay(instance) == 0
}

// awaitReplica looks once more, as the check took a while.
func awaitReplica(_ context.Context, o *observed) flow.Outcome {
	if o.status().VolumeLockRequest != nil || o.status().Handover != nil {
		return flow.Next
	}
	return replicaIsThere(o, nil)
}

// pinVolumes records which volumes are looked at.
func pinVolumes(_ context.Context, o *observed) flow.Outcome {
	status := o.status()
	if !o.links() || status.Link != nil || status.Handover != nil {
		return flow.Next
	}
	granted := o.lock().Response().Volumes
	link := &v1alpha1.LinkStatus{Volumes: granted[:1:1]}
	for _, volume := range granted[1:] {
		if o.mayLeadBack(volume.Instance) {
			link.Volumes = append(link.Volumes, volume)
		}
	}
	status.Link = link
	return flow.Save(v1alpha1.ReasonUpgrading, "The cluster is stopped, and its volumes are compared.")
}

// runInspections starts a Job for each volume, all at once.
func (r linker) runInspections(ctx context.Context, o *observed) flow.Outcome {
	if !o.links() || o.status().Previous != nil || o.status().Handover != nil {
		return flow.Next
	}
	for _, i := range o.inspections {
		job := r.inspectionOf(o, i)
		switch {
		case i.state.Exists && job.Misplaced(i.state):
			return r.again(ctx, o, i.job, i.state, placedAnew)
		case i.state.Exists:
			continue
		}
		if err := job.Ensure(ctx, r.Client); err != nil {
			return o.notEnsured(err)
		}
	}
	return flow.Next
}

// inspectionOf a volume is a Job that changes nothing.
func (r linker) inspectionOf(o *observed, i inspection) workload.Job {
	return workload.Job{
		Name: i.job, Owner: o.upgrade, Cluster: o.cluster.Name, Component: workload.ComponentUpgrade, Image: o.status().Plan.FromImage, Agent: r.Agent,
		Args: []string{"upgrade", "inspect"}, Spec: r.job(o), Inline: true, ClusterSpec: &o.cluster.Spec, DataClaim: i.volume.ClaimName, DataReadOnly: true, Limit: o.lock().TimeLeft(),
		Resources: resourcesOf(o.cluster, inspecting),
	}
}

// pinWayBack records the replica that leads back, before anything is linked. Without one nothing is linked, and the old version starts again.
func (r linker) pinWayBack(ctx context.Context, o *observed) flow.Outcome {
	status := o.status()
	if !o.links() || status.Previous != nil || status.Handover != nil {
		return flow.Next
	}
	for _, i := range o.inspections {
		if result := (agentapi.UpgradeInspection{}); i.state.Ended() && !i.state.Failed && !i.state.Result(&result) {
			return r.again(ctx, o, i.job, i.state, resultLost)
		}
	}
	found := findWayBack(o.inspections)
	switch {
	case found.replica != nil:
		now := o.cluster.Status
		status.Link.Timeline, status.Link.Checkpoint = int64(found.end.Timeline), found.end.Checkpoint
		status.PreviousBytes = found.bytes
		status.Previous = &v1alpha1.PreviousData{
			DataGeneration: now.DataGeneration, Instance: found.replica.Instance, VolumeUID: found.replica.UID,
			SystemIdentifier: now.SystemIdentifier, MajorVersion: now.MajorVersion, Image: now.Image,
		}
		return flow.Save(v1alpha1.ReasonUpgrading, fmt.Sprintf("The volume of %s has every commit, and is kept to go back to.", found.replica.Instance))
	case found.none != "":
		status.Failure = volumelock.Fail(v1alpha1.ReasonNoWayBack, "%s Nothing was linked.", found.none)
		return flow.Save(v1alpha1.ReasonRollingBack, status.Failure.Message)
	}
	return o.awaitInspections(found.waits)
}

// awaitInspections waits for a Job that looks at a volume. The cluster is stopped, and no watch tells when a pod on a node that doesn't respond is lost.
func (o *observed) awaitInspections(message string) flow.Outcome {
	wait := flow.Wait(v1alpha1.ReasonUpgrading, message)
	for _, i := range o.inspections {
		if outcome := i.state.Await(wait.Reason, message); outcome.After > 0 {
			return outcome
		}
	}
	return wait
}

// wayBack is what the comparison of volumes has come to.
type wayBack struct {
	replica *v1alpha1.LockedVolume // that has everything
	end     agentapi.WALEnd        // of the primary
	bytes   int64                  // that the data takes there
	none    string                 // why there is none, in sentences
	waits   string                 // for what
}

// findWayBack finds the first replica whose data ends where that of the primary does. It waits for no more than it needs.
func findWayBack(all []inspection) wayBack {
	primary, end := agentapi.UpgradeInspection{}, agentapi.WALEnd{}
	var lack, waits []string
	for n := range all {
		i := &all[n]
		result, why := inspected(i)
		switch {
		case why == "" && result == nil:
			waits = append(waits, underWay("The Job on the volume of "+i.volume.Instance+" has yet to say where its data ends.", i.state))
		case n == 0 && why != "", n == 0 && !result.Primary:
			return wayBack{none: fmt.Sprintf("The data on the volume of %s, the last primary, was not shut down cleanly: %s", i.volume.Instance, said(result, why))}
		case n == 0:
			primary, end = *result, result.WALEnd
		case why != "" || !result.Replica || primary.State != "" && result.WALEnd != end:
			lack = append(lack, fmt.Sprintf("%s: %s", i.volume.Instance, said(result, why)))
		case primary.State != "":
			return wayBack{replica: &i.volume, end: end, bytes: result.Bytes}
		}
	}
	if len(waits) > 0 || len(all) == 0 {
		return wayBack{waits: strings.Join(waits, " ")}
	}
	return wayBack{none: fmt.Sprintf("No replica has everything that its primary had, whose WAL ended at %s of timeline %d. %s", end.Checkpoint, end.Timeline, strings.Join(lack, " "))}
}

// inspected is what a Job has found, or why it has found nothing; neither: it continues.
func inspected(i *inspection) (*agentapi.UpgradeInspection, string) {
	state, result := i.state, &agentapi.UpgradeInspection{}
	switch {
	case i.lost:
		return nil, workload.LostMessage
	case state.Taken():
		return nil, flow.Sentence(state.Message)
	case state.Ended() && state.Failed:
		_, message := state.FailureReason()
		return nil, flow.Sentence(message)
	case (state.Ended() || state.Said()) && state.Result(result):
		return result, ""
	}
	return nil, ""
}

func said(result *agentapi.UpgradeInspection, why string) string {
	if result == nil {
		return why
	}
	return fmt.Sprintf("%s at %s of timeline %d.", result.State, result.Checkpoint, result.Timeline)
}

// link says what the Job of the upgrade links, or nil.
func (o *observed) link() *agentapi.WALEnd {
	if !o.links() {
		return nil
	}
	status := o.status()
	return &agentapi.WALEnd{SystemIdentifier: status.Previous.SystemIdentifier, Timeline: uint32(status.Link.Timeline), Checkpoint: status.Link.Checkpoint}
}

// leadBack hands the data of the replica over where the upgrade failed before it had handed over anything: what the Job has done to that of
// the primary is not known.
func (o *observed) leadBack() flow.Outcome {
	status := o.status()
	if !o.links() || status.Previous == nil || status.VolumeLockRequest == nil || status.Handover != nil || o.lock().Gone() || !o.lock().Granted() {
		return flow.Next
	}
	return o.lock().HandBack()
}

// deleteInspections deletes the Jobs that have looked at the volumes, without waiting.
func (r linker) deleteInspections(ctx context.Context, o *observed) flow.Outcome {
	for _, i := range o.inspections {
		if err := workload.Delete(ctx, r.Client, o.upgrade, i.job, i.state); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// inspecting: a Job that looks at a volume is left.
func (o *observed) inspecting() bool {
	for _, i := range o.inspections {
		if i.state.Exists {
			return true
		}
	}
	return false
}

// ledBackBy says whose data leads back, where that is not the primary's.
func (o *observed) ledBackBy() string {
	if !o.links() || o.status().Previous == nil {
		return ""
	}
	return fmt.Sprintf(", that of %s, from which the former primary is cloned", o.status().Previous.Instance)
}
