//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/netns"
	"howdah.dev/howdah/test/testkit/place"
)

// scrapedBy is of a PodMonitor what the Prometheus operator makes a job of Prometheus from.
type scrapedBy struct {
	Spec struct {
		Selector  struct{ MatchLabels map[string]string }
		Endpoints []scrapeEndpoint `json:"podMetricsEndpoints"`
	}
}

type scrapeEndpoint struct {
	Port, Scheme, Path string
	TLSConfig          struct {
		ServerName string
		CA, Cert   struct{ Secret corev1.SecretKeySelector }
		KeySecret  corev1.SecretKeySelector
	}
	Relabelings []struct{ TargetLabel, Replacement string }
}

// installPodMonitors installs the kind as the Prometheus operator does, without its schema. It stays: another test may be at it.
func (b *bed) installPodMonitors() {
	b.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "podmonitors.monitoring.coreos.com"},
		"spec": map[string]any{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": map[string]any{"kind": "PodMonitor", "listKind": "PodMonitorList", "plural": "podmonitors", "singular": "podmonitor"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
	if err := b.Create(b.Context(), definition); err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
}

func (b *bed) secretKey(from corev1.SecretKeySelector) []byte {
	b.Helper()
	secret := &corev1.Secret{}
	b.Must(b.Get(b.Context(), client.ObjectKey{Namespace: b.Namespace, Name: from.Name}, secret))
	if len(secret.Data[from.Key]) == 0 {
		b.Fatalf("Secret %s has no %s", from.Name, from.Key)
	}
	return secret.Data[from.Key]
}

// scraper gets what an endpoint says, as Prometheus on a node of the cluster would.
func (b *bed) scraper(endpoint scrapeEndpoint) *http.Client {
	b.Helper()
	with := endpoint.TLSConfig
	pair, err := tls.X509KeyPair(b.secretKey(with.Cert.Secret), b.secretKey(with.KeySecret))
	b.Must(err)
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(b.secretKey(with.CA.Secret)) {
		b.Fatal("the CA is none")
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext:     netns.Dialer(b.Kube("netns", "cp")),
		TLSClientConfig: &tls.Config{ServerName: with.ServerName, RootCAs: authority, Certificates: []tls.Certificate{pair}},
	}}
}

// scrape one pod.
func (b *bed) scrape(by *http.Client, endpoint scrapeEndpoint, pod *corev1.Pod) (map[string]*dto.MetricFamily, error) {
	port := int32(0)
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == endpoint.Port {
				port = p.ContainerPort
			}
		}
	}
	path := "/metrics"
	if endpoint.Path != "" {
		path = endpoint.Path
	}
	response, err := by.Get(endpoint.Scheme + "://" + net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)) + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", pod.Name, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// TestWhatAPodMonitorLeadsToIsScrapedByItsPortNameAndCertificate translates the PodMonitor as the operator does.
func TestWhatAPodMonitorLeadsToIsScrapedByItsPortNameAndCertificate(t *testing.T) {
	onlyInFull(t, "metrics are scraped in tests of the controllers and the agent")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	b.installPodMonitors()
	b.Must(b.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: b.Meta("queries"), Data: map[string]string{
		"shop.yaml": "answers: {query: SELECT 42 AS n, metrics: [{n: {usage: GAUGE, description: The answer}}]}\n",
	}}))
	cluster := b.NewCluster("shop", 18)
	cluster.Spec.Instances = 2
	cluster.Spec.Monitoring = &v1alpha1.Monitoring{
		CustomQueriesConfigMap: []v1alpha1.ConfigMapKey{{Name: "queries", Key: "shop.yaml"}}, PodMonitor: &v1alpha1.PodMonitor{},
	}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	b.AwaitTrue(cluster, v1alpha1.ConditionMonitoringReady)

	object, monitor := &unstructured.Unstructured{}, scrapedBy{}
	object.SetAPIVersion("monitoring.coreos.com/v1")
	object.SetKind("PodMonitor")
	b.Must(b.Get(t.Context(), client.ObjectKey{Namespace: b.Namespace, Name: "shop"}, object))
	content, err := json.Marshal(object.Object)
	b.Must(err)
	b.Must(json.Unmarshal(content, &monitor))
	pods := &corev1.PodList{}
	b.Must(b.List(t.Context(), pods, client.InNamespace(b.Namespace), client.MatchingLabels(monitor.Spec.Selector.MatchLabels)))
	if len(pods.Items) != 2 || len(monitor.Spec.Endpoints) != 1 {
		t.Fatalf("it selects %d pods, for %d endpoints", len(pods.Items), len(monitor.Spec.Endpoints))
	}
	endpoint := monitor.Spec.Endpoints[0]
	labels := map[string]string{}
	for _, r := range endpoint.Relabelings {
		labels[r.TargetLabel] = r.Replacement
	}
	if labels["job"] != "howdah" || labels["cluster"] != "shop" {
		t.Errorf("alerts would look for other labels than %v", labels)
	}
	prometheus := b.scraper(endpoint)
	for i := range pods.Items {
		pod := &pods.Items[i]
		want := []string{"howdah_up", "howdah_instance_info", "howdah_volume_bytes", "pg_stat_database_xact_commit", "answers_n"}
		b.Await(cluster, fmt.Sprintf("%s to serve %v", pod.Name, want), func() bool {
			families, err := b.scrape(prometheus, endpoint, pod)
			if err != nil {
				t.Log(err)
				return false
			}
			for _, name := range want {
				if families[name] == nil {
					return false
				}
			}
			return families["howdah_up"].GetMetric()[0].GetGauge().GetValue() == 1 && families["answers_n"].GetMetric()[0].GetGauge().GetValue() == 42
		})
	}
	stranger := prometheus.Transport.(*http.Transport).Clone()
	stranger.TLSClientConfig.Certificates = nil
	if _, err := b.scrape(&http.Client{Transport: stranger, Timeout: 10 * time.Second}, endpoint, &pods.Items[0]); err == nil {
		t.Error("a client without a certificate reads the metrics")
	}
}
