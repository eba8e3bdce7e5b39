package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repository/location"
)

// policy looks for one thing that stands in the way and that only a person can change. refused is empty: go on.
type policy func(w *world, images manager.Images) (reason, refused string)

// policies in the order in which they are asked.
var policies = []policy{versionKnown, repositoryThere, credentialsThere, namesFree, volumeThere}

// admit stops before anything is touched when something stands in the way.
func (r *Reconciler) admit(_ context.Context, w *world) flow.Outcome {
	for _, p := range policies {
		if reason, refused := p(w, r.Images); refused != "" {
			outcome := flow.Stop(reason, refused)
			outcome.After = unknownInterval // not all of what stands in the way is watched
			return outcome
		}
	}
	return flow.Next
}

// versionKnown: there is an image to begin with.
func versionKnown(w *world, images manager.Images) (string, string) {
	spec := w.cluster.Spec
	if w.begun() || spec.Image != "" || images[spec.Version] != "" {
		return "", ""
	}
	return v1alpha1.ReasonUnknownVersion, fmt.Sprintf(
		"PostgreSQL %d is not known here; %s: write one of them in spec.version, or set spec.image", spec.Version, knownVersions(images))
}

func knownVersions(images manager.Images) string {
	var known []string
	for _, version := range slices.Sorted(maps.Keys(images)) {
		known = append(known, fmt.Sprint(version))
	}
	if len(known) == 0 {
		return "no version is"
	}
	return "known are " + strings.Join(known, ", ")
}

// repositoryThere: a cluster doesn't begin with an archive that leads nowhere. One that is lost later stops nothing.
func repositoryThere(w *world, _ manager.Images) (string, string) {
	archive := w.cluster.Spec.Archive
	switch {
	case w.begun() || archive == nil:
		return "", ""
	case w.repository == nil:
		return v1alpha1.ReasonRepositoryNotFound, missingRepository(w.cluster)
	case w.repository.Spec.ReadOnly:
		return v1alpha1.ReasonReadOnly, readOnlyRepository(w.cluster)
	}
	return "", ""
}

// credentialsThere: a pod that mounts a Secret that isn't there never starts.
func credentialsThere(w *world, _ manager.Images) (string, string) {
	if w.begun() || w.missingSecret == "" {
		return "", ""
	}
	return v1alpha1.ReasonSecretNotFound, missingCredentials(w)
}

func missingCredentials(w *world) string {
	if w.missingSecret == location.KeysSecretName(w.repository) {
		return fmt.Sprintf("there is no Secret %s in namespace %s, which BackupRepository %s names: make it with the keys that the repository is encrypted with, or name another in its spec.encryption.secretName",
			w.missingSecret, w.cluster.Namespace, w.repository.Name)
	}
	return fmt.Sprintf("there is no Secret %s in namespace %s, which BackupRepository %s names: make it with %s and %s, or name another in its spec.s3.credentials.secretName",
		w.missingSecret, w.cluster.Namespace, w.repository.Name, objstore.AccessKeyIDFile, objstore.SecretAccessKeyFile)
}

func missingRepository(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf("there is no BackupRepository %s in namespace %s: make it, or name another in spec.archive.repository.name",
		cluster.Spec.Archive.Repository.Name, cluster.Namespace)
}

func readOnlyRepository(cluster *v1alpha1.PostgresCluster) string {
	return fmt.Sprintf("BackupRepository %s is read-only (spec.readOnly), so nothing can be archived to it: name another in spec.archive.repository.name",
		cluster.Spec.Archive.Repository.Name)
}

// namesFree: nothing that the cluster needs to make is somebody else's already. Of a cluster that this process has begun, most
// of that is only known when the making of it meets what is there, ahead of the first volume.
func namesFree(w *world, _ manager.Images) (string, string) {
	for _, name := range slices.Sorted(maps.Keys(w.live)) {
		object := w.live[name]
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
			if !volume.Belongs(claim, w.cluster) {
				return v1alpha1.ReasonNameConflict, foreignClaim(claim)
			}
			continue
		}
		if foreign(object, w.cluster) {
			kind, _, _ := strings.Cut(name, "/")
			return v1alpha1.ReasonNameConflict, conflict(kind, object.GetName())
		}
	}
	if w.initJob.Foreign {
		return v1alpha1.ReasonNameConflict, conflict("Job", w.names.InitJob())
	}
	return "", ""
}

func conflict(kind, name string) string {
	return fmt.Sprintf("%s %s is there and belongs to somebody else, so it is not touched: delete it, or make the cluster under another name", kind, name)
}

func foreignClaim(claim *corev1.PersistentVolumeClaim) string {
	if from := claim.Labels[component.LabelRetainedFrom]; from != "" {
		return fmt.Sprintf("PersistentVolumeClaim %s was left behind by a PostgresCluster %s that was deleted, and may hold its data: delete the claim, or make the cluster under another name",
			claim.Name, from)
	}
	return conflict("PersistentVolumeClaim", claim.Name)
}

// volumeThere: an empty volume in place of the one that held the data would only hide the loss. That of a replica is made
// again, and its instance is cloned.
func volumeThere(w *world, _ manager.Images) (string, string) {
	data := w.dataInstance()
	if !w.hasRun() || w.claim(data) != nil || w.deleting() {
		return "", ""
	}
	return v1alpha1.ReasonUnavailable, fmt.Sprintf(
		"PersistentVolumeClaim %s, which held the data, is gone: restore a backup into a new PostgresCluster with a Restore, and delete this one",
		w.names.Volume(data))
}
