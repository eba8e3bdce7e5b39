//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // what controllers say is in their pods
	os.Exit(m.Run())
}

const (
	interval = 250 * time.Millisecond
	patience = 6 * time.Minute // generous: the machine may be busy
)

// bed is one test's place on the real cluster: a namespace, and a prefix in a bucket.
type bed struct {
	*testing.T
	client.Client
	namespace string
	store     map[string]string // what `kube s3 env` says
}

// newBed makes the namespace of a test, with a BackupRepository `repo` on the named S3 server, and takes it away after a
// success. After a failure it stays, and what its objects said is in build/e2e.
func newBed(t *testing.T, server string) *bed {
	t.Helper()
	b := &bed{T: t, Client: clientFor(t, restConfig(t)), store: storeEnv(t, server)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	b.must(b.Create(t.Context(), namespace))
	b.namespace = namespace.Name
	t.Cleanup(func() { b.leave(namespace) })
	b.makeRepository("repo", b.store["AWS_SECRET_ACCESS_KEY"])
	return b
}

func (b *bed) leave(namespace *corev1.Namespace) {
	if b.Failed() {
		b.dump()
		return
	}
	// What would wait for a last backup goes without: the namespace takes no new objects any more.
	clusters := &v1alpha1.PostgresClusterList{}
	if err := b.List(context.Background(), clusters, client.InNamespace(b.namespace)); err == nil {
		for i := range clusters.Items {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":{"finalBackup":false,"volumes":"Delete"}}}`))
			_ = b.Patch(context.Background(), &clusters.Items[i], patch)
		}
	}
	if err := b.Delete(context.Background(), namespace); err != nil {
		b.Logf("the namespace stays: %v", err)
	}
}

// dump keeps what a person would look at first.
func (b *bed) dump() {
	dir := filepath.Join("../../build/e2e", strings.ReplaceAll(b.Name(), "/", "_"))
	_ = os.MkdirAll(dir, 0o755)
	for name, args := range map[string][]string{
		"objects.yaml": {"get", "howdah,pods,jobs,statefulsets,pvc,endpointslices", "-n", b.namespace, "-o", "yaml"},
		"events.txt":   {"get", "events", "-n", b.namespace, "--sort-by=.lastTimestamp"},
		"pods.log":     {"logs", "-n", b.namespace, "-l", "app.kubernetes.io/managed-by=howdah", "--all-containers", "--prefix", "--tail=300"},
		"suite.log":    {"logs", "-n", "howdah-system", "-l", "app.kubernetes.io/instance=howdah", "--prefix", "--tail=500"},
	} {
		out, _ := exec.Command(kubectl(b.T), args...).CombinedOutput()
		_ = os.WriteFile(filepath.Join(dir, name), out, 0o644)
	}
	b.Logf("namespace %s is left to be looked at; its objects, events and logs are in %s", b.namespace, dir)
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// storeEnv asks the test bed, or the environment where the user has a cluster, for an S3 server.
func storeEnv(t *testing.T, server string) map[string]string {
	t.Helper()
	env := map[string]string{}
	if out, err := exec.Command("../../build/bin/kube", "s3", "env", server).Output(); err == nil {
		for line := range strings.Lines(string(out)) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
				env[name] = value
			}
		}
	}
	for _, name := range []string{"S3_ENDPOINT", "S3_BUCKET", "S3_CA_FILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if env[name] == "" {
			env[name] = os.Getenv(name)
		}
		if env[name] == "" {
			t.Fatalf("there is no S3 server %s: start one with `build/bin/kube s3 start %s`, or set S3_ENDPOINT, S3_BUCKET, S3_CA_FILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", server, server)
		}
	}
	return env
}

// kube runs a verb of the test bed.
func (b *bed) kube(args ...string) {
	b.Helper()
	if out, err := exec.Command("../../build/bin/kube", args...).CombinedOutput(); err != nil {
		b.Fatalf("kube %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func kubectl(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("../../build/bin/kube", "assets").Output(); err == nil {
		return filepath.Join(strings.TrimSpace(string(out)), "kubectl")
	}
	return "kubectl"
}

func (b *bed) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name}
}

func (b *bed) makeRepository(name, secretKey string) *v1alpha1.BackupRepository {
	b.Helper()
	authority, err := os.ReadFile(b.store["S3_CA_FILE"])
	b.must(err)
	b.must(b.Create(b.Context(), &corev1.Secret{ObjectMeta: b.meta(name), StringData: map[string]string{
		objstore.AccessKeyIDFile: b.store["AWS_ACCESS_KEY_ID"], objstore.SecretAccessKeyFile: secretKey,
	}}))
	repo := &v1alpha1.BackupRepository{ObjectMeta: b.meta(name), Spec: v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{
		Endpoint: b.store["S3_ENDPOINT"], Bucket: b.store["S3_BUCKET"], Prefix: b.namespace + "/" + name,
		CABundle: string(authority), Credentials: &v1alpha1.S3Credentials{SecretName: name},
	}}}
	b.must(b.Create(b.Context(), repo))
	return repo
}

// bucket opens what the repository `repo` writes to.
func (b *bed) bucket() objstore.Store {
	b.Helper()
	authority, err := os.ReadFile(b.store["S3_CA_FILE"])
	b.must(err)
	store, err := open.Open(b.Context(), objstore.Config{
		Driver: objstore.DriverMinIO, Endpoint: b.store["S3_ENDPOINT"], Bucket: b.store["S3_BUCKET"],
		Prefix: b.namespace + "/repo", CABundle: string(authority), PathStyle: true,
		Credentials: &objstore.Credentials{AccessKeyID: b.store["AWS_ACCESS_KEY_ID"], SecretAccessKey: b.store["AWS_SECRET_ACCESS_KEY"]},
	})
	b.must(err)
	return store
}

// newCluster describes a cluster that archives to `repo`.
func (b *bed) newCluster(name string, version int32) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: b.meta(name), Spec: v1alpha1.PostgresClusterSpec{
		Version: version, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("4Gi")},
		Archive: &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "repo"}},
	}}
}

// cluster makes one and waits until it is Ready.
func (b *bed) cluster(name string, version int32) *v1alpha1.PostgresCluster {
	b.Helper()
	cluster := b.newCluster(name, version)
	b.must(b.Create(b.Context(), cluster))
	b.awaitTrue(cluster, v1alpha1.ConditionReady)
	return cluster
}

func (b *bed) backup(name, cluster string) *v1alpha1.Backup {
	b.Helper()
	backup := &v1alpha1.Backup{ObjectMeta: b.meta(name), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: cluster}}}
	b.must(b.Create(b.Context(), backup))
	b.awaitTrue(backup, v1alpha1.ConditionSucceeded)
	return backup
}

// await polls the object until done says so; what says what is awaited.
func (b *bed) await(object client.Object, what string, done func() bool) {
	b.Helper()
	err := wait.PollUntilContextTimeout(b.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		if err := b.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return done(), nil
	})
	if err != nil {
		b.Fatalf("%T %s: %s: %v; it says %s", object, object.GetName(), what, err, describe(object))
	}
}

// condition of the object as it was read last, if it speaks of the present spec.
func condition(object client.Object, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(flow.ConditionsOf(object), kind)
	if c == nil || c.ObservedGeneration != object.GetGeneration() {
		return nil
	}
	return c
}

// awaitTrue waits for a condition; one of an ended object that is false ends the test at once.
func (b *bed) awaitTrue(object client.Object, kind string) {
	b.Helper()
	b.await(object, kind, func() bool {
		c := condition(object, kind)
		if c != nil && kind == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionFalse {
			b.Fatalf("%T %s ended with %s: %s", object, object.GetName(), c.Reason, c.Message)
		}
		return c != nil && c.Status == metav1.ConditionTrue
	})
}

// awaitReason waits until a condition has this reason and this part of a message.
func (b *bed) awaitReason(object client.Object, kind, reason, message string) {
	b.Helper()
	b.await(object, kind+" to say "+reason, func() bool {
		c := condition(object, kind)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, message)
	})
	b.Logf("%s: %s: %s", object.GetName(), reason, condition(object, kind).Message)
}

func (b *bed) awaitGone(object client.Object) {
	b.Helper()
	err := wait.PollUntilContextTimeout(b.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		err := b.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		b.Fatalf("%T %s is still there: %v; it says %s", object, object.GetName(), err, describe(object))
	}
}

func describe(object client.Object) string {
	switch object.(type) {
	case *corev1.Pod, *corev1.PersistentVolumeClaim, *corev1.Service, *corev1.Secret:
		return ""
	}
	var all []string
	for _, c := range flow.ConditionsOf(object) {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "; ")
}

// exec runs a program in a container.
func (b *bed) exec(pod string, args ...string) (string, error) {
	cmd := exec.CommandContext(b.Context(), kubectl(b.T), append([]string{"exec", "-n", b.namespace, pod, "--"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

// sql runs statements in the cluster's application database as the superuser, over the local socket.
func (b *bed) sql(cluster string, statements ...string) string {
	b.Helper()
	args := []string{"psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "app"}
	for _, statement := range statements {
		args = append(args, "-c", statement)
	}
	out, err := b.exec(cluster+"-0", args...)
	b.must(err)
	return out
}

// clientPod connects as an application would: through the Service, with what is in the app Secret, and checks the
// server's certificate.
func (b *bed) clientPod(name, cluster, image string, command ...string) *corev1.Pod {
	b.Helper()
	fromSecret := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: cluster + "-app"}, Key: key,
		}}}
	}
	pod := &corev1.Pod{ObjectMeta: b.meta(name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](1),
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "client", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
			Env: []corev1.EnvVar{
				fromSecret("PGHOST", "host"), fromSecret("PGPORT", "port"), fromSecret("PGDATABASE", "dbname"),
				fromSecret("PGUSER", "username"), fromSecret("PGPASSWORD", "password"), fromSecret("URI", "uri"),
				{Name: "PGSSLMODE", Value: "verify-full"}, {Name: "PGSSLROOTCERT", Value: "/connection/ca.crt"},
				{Name: "PGCONNECT_TIMEOUT", Value: "3"},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "connection", MountPath: "/connection"}},
		}},
		Volumes: []corev1.Volume{{Name: "connection", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: cluster + "-connection"}},
		}}},
	}}
	b.must(b.Create(b.Context(), pod))
	b.await(pod, "running", func() bool { return pod.Status.Phase == corev1.PodRunning })
	return pod
}
