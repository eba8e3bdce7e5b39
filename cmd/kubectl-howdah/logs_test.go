package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"howdah.dev/howdah/pkg/terminal"
)

// kubelets answers like an API server that has pods with logs, which the one of the integration tests can't have, as it runs no pods.
func kubelets(t *testing.T, logs map[string]string) (kubeconfig string) {
	t.Helper()
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"list", "get"}}},
		})
	})
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	})
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	})
	mux.HandleFunc("GET /api/v1/namespaces/demo/pods", func(w http.ResponseWriter, r *http.Request) {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		for name := range logs {
			list.Items = append(list.Items, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres"}}},
			})
		}
		if selector := r.URL.Query().Get("labelSelector"); !strings.Contains(selector, "howdah.dev/cluster=shop") {
			t.Errorf("pods are listed by %q", selector)
		}
		answer(w, list)
	})
	mux.HandleFunc("GET /api/v1/namespaces/demo/pods/{pod}/log", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("container") != "postgres" || q.Get("timestamps") != "true" || q.Get("sinceSeconds") != "3600" {
			t.Errorf("a log is read with %v", q)
		}
		_, _ = w.Write([]byte(logs[r.PathValue("pod")]))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "demo"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLogsOfAllInstancesAreShownByOneCommand(t *testing.T) {
	config := kubelets(t, map[string]string{
		"shop-0": `2026-09-19T12:00:02Z {"time":"2026-09-19T12:00:02Z","level":"INFO","msg":"checkpoint` + "\\u001b[2J" + `","logger":"postgres"}` + "\n",
		"shop-1": `2026-09-19T12:00:01Z {"time":"2026-09-19T12:00:01Z","level":"WARN","msg":"the volume is filling","percent":90}` + "\n",
	})
	root, out := newRoot(), &strings.Builder{}
	root.SetArgs([]string{"logs", "shop", "--kubeconfig", config})
	root.SetOut(terminal.Clean(out))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "2026-09-19T12:00:01.000Z shop-1 WARN  agent: the volume is filling percent=90\n" +
		"2026-09-19T12:00:02.000Z shop-0 INFO  postgres: checkpoint\\u001b[2J\n"
	if out.String() != want {
		t.Errorf("%q", out)
	}
}

func TestAReportThatFailsLeavesNoFileAndNoneIsOverwritten(t *testing.T) {
	config, file := kubelets(t, nil), filepath.Join(t.TempDir(), "report.zip")
	report := func() error {
		root := newRoot()
		root.SetArgs([]string{"report", "shop", "--kubeconfig", config, "--file", file})
		return root.ExecuteContext(t.Context())
	}
	if err := report(); err == nil {
		t.Fatal("there is no such cluster, and no error")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report(); !os.IsExist(err) {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "mine" {
		t.Errorf("%q, %v", content, err)
	}
}
