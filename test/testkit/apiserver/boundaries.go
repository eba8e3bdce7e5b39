//go:build integration

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/manager"
)

// suiteNamespace is where the generated files install the suite.
const suiteNamespace = "howdah-system"

var installing sync.Mutex

// As has a controller act with its own account, under the roles and the admission policies that the chart installs.
func As(t *testing.T, controller string) func(*rest.Config, *ctrl.Options) {
	t.Helper()
	InstallBoundaries(t)
	return func(config *rest.Config, _ *ctrl.Options) { config.Impersonate = account(suiteNamespace, controller) }
}

// ClientAs is a client that is the account of a controller.
func ClientAs(t *testing.T, controller string) client.Client {
	t.Helper()
	return clientAs(t, account(suiteNamespace, controller))
}

// ClientInPod is a client that has the token of a pod.
func ClientInPod(t *testing.T, namespace, serviceAccount, pod string) client.Client {
	t.Helper()
	bearer := account(namespace, serviceAccount)
	bearer.Extra = map[string][]string{"authentication.kubernetes.io/pod-name": {pod}}
	return clientAs(t, bearer)
}

func clientAs(t *testing.T, who rest.ImpersonationConfig) client.Client {
	t.Helper()
	config := Config()
	config.Impersonate = who
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func account(namespace, name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// InstallBoundaries installs the accounts, roles and admission policies that the chart renders, and waits until the policies are
// enforced: the API server takes a moment to compile them.
func InstallBoundaries(t *testing.T) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	c := Client(t)
	install(t, c, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": suiteNamespace},
	}})
	for _, pattern := range []string{"config/rbac/*-controller/*.yaml", "config/rbac/metrics/*.yaml", "config/default/policies.yaml"} {
		files, err := filepath.Glob(filepath.Join(repository(), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, file := range files {
			installFile(t, c, file)
		}
	}
	awaitPolicies(t)
}

func installFile(t *testing.T, c client.Client, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if object.GetKind() != "Kustomization" && object.GetKind() != "" {
			install(t, c, object)
		}
	}
}

func install(t *testing.T, c client.Client, object *unstructured.Unstructured) {
	t.Helper()
	if err := c.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("install %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// awaitPolicies waits until each policy refuses what only it refuses.
func awaitPolicies(t *testing.T) {
	t.Helper()
	own := map[string]string{"app.kubernetes.io/managed-by": "howdah"}
	in := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	for policy, object := range map[string]client.Object{
		"namespaces": &corev1.ConfigMap{ObjectMeta: in(metav1.NamespaceSystem, "x", own)},
		"objects":    &corev1.ConfigMap{ObjectMeta: in(metav1.NamespaceDefault, "x", nil)},
		"secrets":    &corev1.Secret{ObjectMeta: in(metav1.NamespaceDefault, "x", own)},
		"access":     &corev1.ServiceAccount{ObjectMeta: in(metav1.NamespaceDefault, "x", own)},
		"workloads":  batchJob(in(metav1.NamespaceDefault, "x", own)),
	} {
		c := client.NewDryRunClient(ClientAs(t, "db-controller"))
		for deadline := time.Now().Add(startTime); ; time.Sleep(50 * time.Millisecond) {
			err := c.Create(context.Background(), object.DeepCopyObject().(client.Object))
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("policy %s isn't enforced: %v", policy, err)
			}
		}
	}
}

// batchJob is a Job that the API server accepts of anybody else.
func batchJob(meta metav1.ObjectMeta) client.Object {
	return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "c"}},
	}}}}
}
