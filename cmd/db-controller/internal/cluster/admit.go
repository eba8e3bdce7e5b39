package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/instances"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// policy looks for one thing that stands in the way and that only a person can change. refused is empty: continue.
type policy func(o *observed.Cluster, images manager.Images) (reason, refused string)

// policies in the order in which they are asked.
var policies = []policy{versionKnown, repositoryThere, credentialsThere, namesFree, secretsAllowed, volumeThere, imagesMountable, cloneFits, standbySourceThere}

// admit stops before anything is touched when something stands in the way.
func (r *Reconciler) admit(_ context.Context, o *observed.Cluster) flow.Outcome {
	for _, p := range policies {
		if reason, refused := p(o, r.Images); refused != "" {
			outcome := flow.Stop(reason, refused)
			outcome.After = pace.UnknownInterval // not all of what stands in the way is watched
			return outcome
		}
	}
	return flow.Next
}

// versionKnown: there is an image to begin with.
func versionKnown(o *observed.Cluster, images manager.Images) (string, string) {
	spec := o.Cluster.Spec
	if o.Begun() || spec.Image != "" || images[spec.Version] != "" {
		return "", ""
	}
	return v1alpha1.ReasonUnknownVersion, fmt.Sprintf(
		"There is no image for PostgreSQL %d. %s.", spec.Version, otherVersions(images))
}

// otherVersions is what to do about a version without an image.
func otherVersions(images manager.Images) string {
	if len(images) == 0 {
		return "Name one in spec.image, such as postgres:17"
	}
	var known []string
	for _, version := range slices.Sorted(maps.Keys(images)) {
		known = append(known, fmt.Sprint(version))
	}
	return fmt.Sprintf("Set spec.version to one of %s, or name an image in spec.image", strings.Join(known, ", "))
}

// cloneFits: this cluster can run on the data that it is to have.
func cloneFits(o *observed.Cluster, _ manager.Images) (string, string) {
	if mismatch := instances.SourceMismatch(o); mismatch != "" {
		return v1alpha1.ReasonSourceMismatch, mismatch
	}
	return "", ""
}

// standbySourceThere: a standby doesn't begin without the repository that it is to follow. One that is lost later stops nothing.
func standbySourceThere(o *observed.Cluster, _ manager.Images) (string, string) {
	if o.Begun() {
		return "", ""
	}
	return instances.StandbySourceMissing(o)
}

// repositoryThere: a cluster doesn't begin with a repository that does not exist. One that is lost later stops nothing.
func repositoryThere(o *observed.Cluster, _ manager.Images) (string, string) {
	archive := o.Cluster.Spec.Archive
	switch {
	case o.Begun() || archive == nil:
		return "", ""
	case o.Repository == nil:
		return v1alpha1.ReasonRepositoryNotFound, report.MissingRepository(o.Cluster)
	case o.Repository.Spec.ReadOnly:
		return v1alpha1.ReasonReadOnly, report.ReadOnlyRepository(o.Cluster)
	}
	return "", ""
}

// credentialsThere: a pod that mounts a Secret that isn't there never starts.
func credentialsThere(o *observed.Cluster, _ manager.Images) (string, string) {
	if o.Begun() || o.MissingSecret == "" {
		return "", ""
	}
	return v1alpha1.ReasonSecretNotFound, report.MissingCredentials(o)
}

// imagesMountable: an API server that knows no image volumes mounts an empty folder instead.
func imagesMountable(o *observed.Cluster, _ manager.Images) (string, string) {
	if len(o.Cluster.Spec.PostgreSQL.ExtensionImages) == 0 || o.AgentOfPods.Mounted || o.AgentOfPods.MountedInJobs {
		return "", ""
	}
	return v1alpha1.ReasonImageVolumesUnsupported, "spec.postgresql.extensionImages needs nodes that can mount images, and it isn't known that they can: " +
		"they need Kubernetes 1.35 or later, and a container runtime that mounts images. If they have both, set agent.imageVolume: jobs in the values of " +
		"Howdah's chart; if not, remove extensionImages, and set spec.image to an image that has the extensions."
}

// namesFree: nothing that the cluster can't continue without is somebody else's already. Of a cluster that this process has begun, most
// of that is only known when creating it meets what is there, ahead of the first volume.
func namesFree(o *observed.Cluster, _ manager.Images) (string, string) {
	for _, name := range slices.Sorted(maps.Keys(o.Live)) {
		object := o.Live[name]
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
			if o.BeginsWithVolumes() && !o.Begun() {
				continue // they are looked at more closely
			}
			if !volume.Belongs(claim, o.Cluster) {
				return v1alpha1.ReasonNameConflict, foreignClaim(claim)
			}
			continue
		}
		if _, job := object.(*batchv1.Job); job && o.HasRun() {
			continue // its work is done
		}
		if conflict := observed.Conflict(o, name); conflict != "" && !observed.Dispensable(o, name) {
			return v1alpha1.ReasonNameConflict, conflict
		}
	}
	if o.InitJob.Foreign && !o.HasRun() {
		return v1alpha1.ReasonNameConflict, conflict("Job", o.Names.InitJob())
	}
	return "", ""
}

func conflict(kind, name string) string {
	return fmt.Sprintf("%s %s already exists and belongs to somebody else, so it is not touched. Delete it, or create the cluster under another name.", kind, name)
}

func foreignClaim(claim *corev1.PersistentVolumeClaim) string {
	if from := claim.Labels[component.LabelRetainedFrom]; from != "" {
		return fmt.Sprintf("PersistentVolumeClaim %s was left behind by PostgresCluster %s, which was deleted, and may hold its data. To begin with that data, create the cluster with spec.bootstrap.volumes.from: DeletedCluster; "+
			"otherwise delete the claim, or create the cluster under another name.",
			claim.Name, from)
	}
	return conflict("PersistentVolumeClaim", claim.Name)
}

// volumeThere: an empty volume in place of the one that held the data would only hide the loss. That of a replica is created
// again, and its instance is cloned.
func volumeThere(o *observed.Cluster, _ manager.Images) (string, string) {
	data := o.DataInstance()
	missing := observed.MissingClaim(o, data)
	if !o.HasRun() || missing == "" || o.Deleting() {
		return "", ""
	}
	held := "the data"
	if missing == o.Names.WALVolume(data) {
		held = "the WAL of the primary, without which its data can't be started"
	}
	return v1alpha1.ReasonUnavailable, fmt.Sprintf(
		"PersistentVolumeClaim %s, which held %s, was deleted. Restore a backup into a new PostgresCluster with a Restore, and delete this one.",
		missing, held)
}
