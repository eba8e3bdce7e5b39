package cluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/pkg/manager"
)

func TestPoliciesRefuseWithASentence(t *testing.T) {
	images := manager.Images{15: "a", 17: "b"}
	for name, c := range map[string]struct {
		change          func(*observed.Cluster)
		reason, message string
	}{
		"an unknown version": {func(o *observed.Cluster) { o.Cluster.Status.DataGeneration = ""; o.Cluster.Spec.Version = 99 }, "UnknownVersion",
			"There is no image for PostgreSQL 99. Set spec.version to one of 15, 17, or name an image in spec.image."},
		"an unknown version later on is no reason": {func(o *observed.Cluster) { o.Cluster.Spec.Version = 99 }, "", ""},
		"an unknown version with an image is none": {func(o *observed.Cluster) {
			o.Cluster.Status.DataGeneration = ""
			o.Cluster.Spec.Version, o.Cluster.Spec.Image = 99, "x"
		}, "", ""},
		"a Secret of the cluster in a volume of spec.pods": {func(o *observed.Cluster) {
			o.Cluster.Spec.Pods.Volumes = []v1alpha1.PodVolume{{Name: "keys", Secret: &v1alpha1.SecretVolume{SecretName: "shop-ca"}}}
		}, "SecretReserved", "spec.pods.volumes[keys] has Secret shop-ca, with keys or passwords that only Howdah needs. Use a Secret of your own, " +
			"the certificateSecret of a role in spec.roles, or the application's Secret shop-app."},
		"one that is projected": {func(o *observed.Cluster) {
			o.Cluster.Spec.Pods.Volumes = []v1alpha1.PodVolume{{Name: "keys", Projected: &v1alpha1.ProjectedVolume{
				Sources: []v1alpha1.ProjectedSource{{Secret: &v1alpha1.ConfigMapVolume{Name: "shop-instance"}}},
			}}}
		}, "SecretReserved", "spec.pods.volumes[keys] has Secret shop-instance, with keys or passwords that only Howdah needs. Use a Secret of your own, " +
			"the certificateSecret of a role in spec.roles, or the application's Secret shop-app."},
		"one in a variable of a container": {func(o *observed.Cluster) {
			from := &v1alpha1.EnvSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "shop-superuser", Key: "password"}}
			o.Cluster.Spec.Pods.Containers = []v1alpha1.PodContainer{{Name: "metrics", Env: []v1alpha1.EnvVar{{Name: "A", ValueFrom: from}}}}
		}, "SecretReserved", "spec.pods.containers[metrics] has Secret shop-superuser, with keys or passwords that only Howdah needs. Use a Secret of your own, " +
			"the certificateSecret of a role in spec.roles, or the application's Secret shop-app."},
		"one that an import would send away": {func(o *observed.Cluster) {
			source := v1alpha1.ImportSource{PasswordSecret: &v1alpha1.ImportSecretKey{Name: "shop-ca", Key: "tls.key"}}
			o.Cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{Source: source}}
		}, "SecretReserved", "spec.bootstrap.import.source.passwordSecret has Secret shop-ca, with keys or passwords that only Howdah needs. Use a Secret of your own, " +
			"the certificateSecret of a role in spec.roles, or the application's Secret shop-app."},
		"one that LDAP would send away": {func(o *observed.Cluster) {
			o.Cluster.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "shop-ca", Key: "ca.key"}
		}, "SecretReserved", "spec.postgresql.ldapPasswordSecret has Secret shop-ca, with keys or passwords that only Howdah needs. Use a Secret of your own, " +
			"the certificateSecret of a role in spec.roles, or the application's Secret shop-app."},
		"images of extensions where nodes mount none": {func(o *observed.Cluster) {
			o.Cluster.Spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "pgvector", Image: "pgvector:1"}}
		}, "ImageVolumesUnsupported", "spec.postgresql.extensionImages needs nodes that can mount images, and it isn't known that they can: they need Kubernetes 1.35 or later, " +
			"and a container runtime that mounts images. If they have both, set agent.imageVolume: jobs in the values of Howdah's chart; if not, remove extensionImages, " +
			"and set spec.image to an image that has the extensions."},
		"images of extensions where Jobs mount the agent": {func(o *observed.Cluster) {
			o.AgentOfPods.MountedInJobs = true
			o.Cluster.Spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "pgvector", Image: "pgvector:1"}}
		}, "", ""},
		"the application's Secret is none": {func(o *observed.Cluster) {
			o.Cluster.Spec.Pods.Volumes = []v1alpha1.PodVolume{{Name: "login", Secret: &v1alpha1.SecretVolume{SecretName: "shop-app"}}}
		}, "", ""},
		"a repository that is read-only": {func(o *observed.Cluster) {
			o.Cluster.Status.DataGeneration = ""
			observedtest.Archiving(o)
			o.Repository.Spec.ReadOnly = true
		}, "ReadOnly", "BackupRepository minio is read-only (spec.readOnly), so nothing can be archived to it. Name another one in spec.archive.repository.name."},
		"a repository that is not there": {func(o *observed.Cluster) {
			o.Cluster.Status.DataGeneration = ""
			observedtest.Archiving(o)
			o.Repository = nil
		}, "RepositoryNotFound", "There is no BackupRepository minio in namespace demo. Create it, or name another one in spec.archive.repository.name."},
		"a repository that is lost later is none": {func(o *observed.Cluster) { observedtest.Archiving(o); o.Repository = nil }, "", ""},
		"a Service of somebody else":              {func(o *observed.Cluster) { o.Live["Service/shop-rw"] = observed.Named(&corev1.Service{}, "shop-rw") }, "NameConflict", "Service shop-rw already exists and belongs to somebody else, so it is not touched. Delete it, or create the cluster under another name."},
		"an additional Service of somebody else": {func(o *observed.Cluster) {
			o.Cluster.Status.DataGeneration = ""
			o.Cluster.Spec.Services.Additional = []v1alpha1.AdditionalService{{Name: "etl", Role: v1alpha1.ServicePrimary}}
			o.Live["Service/shop-etl"] = observed.Named(&corev1.Service{}, "shop-etl")
		}, "", ""},
		"somebody else's Service for replicas, which a cluster that runs continues without": {func(o *observed.Cluster) {
			o.Live["Service/shop-ro"] = observed.Named(&corev1.Service{}, "shop-ro")
		}, "", ""},
		"somebody else's Service for replicas, before anything runs": {func(o *observed.Cluster) {
			o.Cluster.Status.DataGeneration = ""
			o.Live["Service/shop-ro"] = observed.Named(&corev1.Service{}, "shop-ro")
		}, "NameConflict", "Service shop-ro already exists and belongs to somebody else, so it is not touched. Delete it, or create the cluster under another name."},
		"a volume that was left behind": {func(o *observed.Cluster) { o.Claim(0).Labels = map[string]string{component.LabelRetainedFrom: "shop"} }, "NameConflict", "PersistentVolumeClaim data-shop-0 was left behind by PostgresCluster shop, which was deleted, and may hold its data. To begin with that data, create the cluster with spec.bootstrap.volumes.from: DeletedCluster; otherwise delete the claim, or create the cluster under another name."},
		"a volume that is lost":         {func(o *observed.Cluster) { delete(o.Live, "PersistentVolumeClaim/data-shop-0") }, "Unavailable", "PersistentVolumeClaim data-shop-0, which held the data, was deleted. Restore a backup into a new PostgresCluster with a Restore, and delete this one."},
		"nothing, when all is well":     {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := New(manager.Dependencies{Images: images}, nil, rollout.Settings{}).admit(context.Background(), observedtest.Running(c.change))
			if outcome.Reason != c.reason || outcome.Message != c.message {
				t.Errorf("got %q: %q", outcome.Reason, outcome.Message)
			}
		})
	}
}
