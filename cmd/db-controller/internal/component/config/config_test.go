package config

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
)

func shop() *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "6ab0"},
		Spec: v1alpha1.PostgresClusterSpec{
			PostgreSQL: v1alpha1.PostgreSQLSpec{Parameters: map[string]v1alpha1.ParameterValue{"work_mem": "8MB"}},
			Resources: v1alpha1.Resources{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
			},
		},
		Status: v1alpha1.PostgresClusterStatus{DataGeneration: "g1", MajorVersion: 17},
	}
}

func TestTheAgentIsToldWhatItHas(t *testing.T) {
	got := Agent(shop(), 1, &objstore.Config{Bucket: "b"})
	if got.MemoryBytes != 2<<30 || got.CPUMillis != 500 {
		t.Errorf("memory %d, cpu %d: limits come before requests", got.MemoryBytes, got.CPUMillis)
	}
	if got.DataGeneration != "g1" || got.MajorVersion != 17 || got.Parameters["work_mem"] != "8MB" || got.EndpointSlice != "shop-rw" || got.Archive.Repository.Bucket != "b" {
		t.Errorf("got %+v", got)
	}
}

func TestTheHashOfTheConfigMapIsThatOfTheConfiguration(t *testing.T) {
	config := Agent(shop(), 1, nil)
	object, err := AgentMap(shop(), config, Beside{})
	if err != nil {
		t.Fatal(err)
	}
	read := agentapi.Config{}
	if err := json.Unmarshal([]byte(object.Data["agent.json"]), &read); err != nil {
		t.Fatal(err)
	}
	if read.Hash() != config.Hash() {
		t.Error("the agent would compute another hash than the controller waits for")
	}
	other := shop()
	other.Spec.PostgreSQL.Parameters["work_mem"] = "9MB"
	if Agent(other, 1, nil).Hash() == config.Hash() {
		t.Error("another parameter has the same hash")
	}
}

func TestTheConnectionChecksTheServersName(t *testing.T) {
	got := ConnectionMap(shop(), []byte("CA")).Data
	if got["host"] != "shop-rw.demo.svc" || got["port"] != "5432" || got["dbname"] != "app" || got["sslmode"] != "verify-full" || got["ca.crt"] != "CA" {
		t.Errorf("got %v", got)
	}
}

func TestAgentsThatElectAreToldHow(t *testing.T) {
	lag := resource.MustParse("64Mi")
	cluster := shop()
	cluster.Spec.MaxLagOnFailover, cluster.Spec.Synchronous = &lag, &v1alpha1.Synchronous{Number: 2, Durability: v1alpha1.DurabilityPreferred}
	cluster.Status.DataInstance = "shop-1"
	got := Agent(cluster, 3, nil)
	if got.Instances != 3 || got.DataInstance != "shop-1" || got.Lease != "shop" || got.PodDomain != "shop-pods.demo.svc" || got.MaxLagBytes != 64<<20 ||
		*got.Synchronous != (agentapi.Synchronous{Number: 2}) {
		t.Errorf("got %+v", got)
	}
	cluster.Spec.Synchronous.Durability = ""
	if !Agent(cluster, 3, nil).Synchronous.Required {
		t.Error("commits don't wait unless it is said")
	}
	if Agent(cluster, 1, nil).Hash() != Agent(shop(), 1, nil).Hash() {
		t.Error("a single instance is told more than one of an older suite understands")
	}
}
