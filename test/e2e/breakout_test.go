//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// breakouts are what somebody would create in a namespace who has the account of a controller.
func breakouts(namespace string) map[string]client.Object {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}
	}
	job := func(namespace string, pod corev1.PodSpec) *batchv1.Job {
		pod.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.Job{ObjectMeta: meta(namespace, "x-upgrade"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	}
	rooted := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "registry.local/postgresql:17", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}},
		Volumes:    []corev1.Volume{{Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
	}
	stealing := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "registry.local/postgresql:17"}},
		Volumes:    []corev1.Volume{{Name: "theirs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "theirs"}}}},
	}
	token := meta(namespace, "x-token")
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	return map[string]client.Object{
		"a privileged Job with the node's files in kube-system": job(metav1.NamespaceSystem, rooted),
		"a privileged Job with the node's files":                job(namespace, rooted),
		"a Job with somebody's Secret":                          job(namespace, stealing),
		"the token of an account":                               &corev1.Secret{ObjectMeta: token, Type: corev1.SecretTypeServiceAccountToken},
		"an account of another name":                            &corev1.ServiceAccount{ObjectMeta: meta(namespace, "admin")},
		"a Role for everything": &rbacv1.Role{ObjectMeta: meta(namespace, "x-upgrade"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		}},
		"a binding to cluster-admin": &rbacv1.RoleBinding{
			ObjectMeta: meta(namespace, "x-upgrade"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "x-upgrade", Namespace: namespace}},
		},
		"an account in kube-system": &corev1.ServiceAccount{ObjectMeta: meta(metav1.NamespaceSystem, "x-upgrade")},
	}
}

// TestNoAccountOfTheReleaseBreaksOut of what is installed: test/integration/boundaries tries more, against the same policies.
func TestNoAccountOfTheReleaseBreaksOut(t *testing.T) {
	onlyInFull(t, "test/integration/boundaries tries this and more against an API server")
	t.Parallel()
	b := newBed(t, "minio")
	config := place.RESTConfig(t)
	for _, controller := range slices.Sorted(maps.Keys(writers)) {
		account := rest.CopyConfig(config)
		account.Impersonate.UserName = "system:serviceaccount:howdah-system:" + controller
		as := client.NewDryRunClient(place.ClientFor(t, account))
		for what, object := range breakouts(b.Namespace) {
			t.Run(controller+"/"+what, func(t *testing.T) {
				if err := as.Create(t.Context(), object); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
					t.Errorf("the API server said: %v", err)
				}
			})
		}
	}
}
