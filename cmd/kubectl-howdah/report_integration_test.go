//go:build integration

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/bundle"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/instancelog"
)

// written is what a request writes, by the names of the files.
func written(t *testing.T, request bundle.Request, c client.Client, key client.ObjectKey) map[string]string {
	t.Helper()
	request.Now = time.Now()
	request.Open = func(string) instancelog.Open {
		return func(_ context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
			if options.Previous {
				return nil, errors.New("there is no previous container")
			}
			return io.NopCloser(strings.NewReader("a line of " + pod + ", from postgresql://app:hunter2@shop-rw/app\n")), nil
		}
	}
	var file bytes.Buffer
	names, err := request.Write(t.Context(), c, key, &file)
	must(t, err)
	archive, err := zip.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	must(t, err)
	files := map[string]string{}
	for _, entry := range archive.File {
		content, err := archive.Open(entry.Name)
		must(t, err)
		text, err := io.ReadAll(content)
		must(t, err)
		files[entry.Name] = string(text)
	}
	if len(files) != len(names) {
		t.Errorf("%v in a file with %d", names, len(files))
	}
	return files
}

func TestAReportHasWhatIsNeededToHelpAndNoSecret(t *testing.T) {
	_, cluster := newCluster(t, func(spec *v1alpha1.PostgresClusterSpec) {
		spec.Pods.Env = []v1alpha1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:hunter2@proxy.example"}}
	})
	c, key := everything(t), client.ObjectKeyFromObject(cluster)
	newPod(t, c, key.Namespace, "shop", "shop-0", v1alpha1.RolePrimary, corev1.ConditionTrue)
	must(t, c.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "shop-app", Labels: map[string]string{v1alpha1.LabelCluster: "shop"}},
		StringData: map[string]string{"password": "hunter2"},
	}))
	must(t, c.Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "shop-0", Namespace: key.Namespace},
		Reason: "FailedScheduling", Message: "0/3 nodes\nare available", LastTimestamp: metav1.Now(), Type: "Warning",
	}))
	files := written(t, bundle.Request{Logs: true}, c, key)
	for name, has := range map[string]string{
		"README.txt": "PostgresCluster shop in namespace " + key.Namespace, "status.txt": "shop", "howdah/postgrescluster.yaml": "HTTPS_PROXY", "kubernetes/pod.yaml": "name: shop-0",
		"secrets.txt": "shop-app", "events.txt": "0/3 nodes are available", "logs/shop-0.log": "a line of shop-0",
	} {
		if !strings.Contains(files[name], has) {
			t.Errorf("%s has no %q: %s", name, has, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") || strings.Contains(text, "managedFields") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if problems, is := files["problems.txt"]; is {
		t.Errorf("problems: %s", problems)
	}
}

func TestLogsWithLiteralsAreReportedOnRequestOnly(t *testing.T) {
	_, cluster := newCluster(t, func(spec *v1alpha1.PostgresClusterSpec) {
		spec.PostgreSQL.Log = &v1alpha1.PostgreSQLLog{Redaction: v1alpha1.RedactNothing}
	})
	c, key := everything(t), client.ObjectKeyFromObject(cluster)
	newPod(t, c, key.Namespace, "shop", "shop-0", v1alpha1.RolePrimary, corev1.ConditionTrue)
	for asked, request := range map[bool]bundle.Request{false: {Logs: true}, true: {Logs: true, UnredactedLogs: true}} {
		files := written(t, request, c, key)
		_, has := files["logs/shop-0.log"]
		if has != asked || strings.Contains(files["problems.txt"], "redaction is Off") == asked {
			t.Errorf("asked %v: %v, %s", asked, has, files["problems.txt"])
		}
	}
}
