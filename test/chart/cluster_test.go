//go:build chart

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
)

const clusterChart = "../../charts/howdah-cluster"

// renderCluster renders the chart of one cluster with these values.
func renderCluster(t *testing.T, values string) ([]unstructured.Unstructured, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(helm, "template", "shop", clusterChart, "--namespace", "demo", "--values", file).CombinedOutput()
	if err != nil {
		return nil, &refusal{string(out)}
	}
	return parse(t, out), nil
}

// refusal is what helm says of values that it refuses.
type refusal struct{ said string }

func (r *refusal) Error() string { return r.said }

// decode reads the object of a kind and a name, and fails on a field that the API doesn't know.
func decode[T any](t *testing.T, objects []unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, object := range ofKind(objects, kind) {
		if object.GetName() != name {
			continue
		}
		content, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		typed := new(T)
		if err := yaml.UnmarshalStrict(content, typed); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return typed
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func TestTheChartOfAClusterArchivesToItsOwnRepository(t *testing.T) {
	objects, err := renderCluster(t, `
labels: {team: accounting}
spec:
  instances: 2
  archive: {walShipIntervalSeconds: 5}
repository:
  create: true
  spec:
    s3: {bucket: databases, prefix: shop/, credentials: {secretName: s3}}
    retention: {recoveryWindow: 7d}
schedules:
  weekly: null
  monthly: null
  hourly: {schedule: "0 * * * *", type: Incremental, timeZone: Europe/Berlin}
`)
	if err != nil {
		t.Fatal(err)
	}
	cluster := decode[v1alpha1.PostgresCluster](t, objects, "PostgresCluster", "shop")
	if a := cluster.Spec.Archive; a == nil || a.Repository.Name != "shop" || a.WALShipIntervalSeconds == nil || *a.WALShipIntervalSeconds != 5 {
		t.Errorf("archives as %+v", a)
	}
	if cluster.Spec.Instances != 2 || cluster.Spec.Version != 17 || cluster.Labels["team"] != "accounting" {
		t.Errorf("the cluster is %+v", cluster)
	}
	repository := decode[v1alpha1.BackupRepository](t, objects, "BackupRepository", "shop")
	if repository.Spec.S3.Bucket != "databases" || repository.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("the repository is %+v", repository)
	}
	if got := strings.Join(names(ofKind(objects, "BackupSchedule")), " "); got != "shop-hourly shop-nightly" {
		t.Errorf("schedules: %s", got)
	}
	hourly := decode[v1alpha1.BackupSchedule](t, objects, "BackupSchedule", "shop-hourly")
	if hourly.Spec.Cluster.Name != "shop" || hourly.Spec.TimeZone != "Europe/Berlin" {
		t.Errorf("the schedule is %+v", hourly.Spec)
	}
}

func TestTheChartOfAClusterCreatesItsPoolers(t *testing.T) {
	objects, err := renderCluster(t, `
name: orders
annotations: {owner: payments}
poolers:
  rw: {instances: 2, poolSize: 20, pods: {labels: {team: a}}}
  ro: {access: ReadOnly}
  usual: {}
  old: null
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(ofKind(objects, "Pooler")), " "); got != "orders-ro orders-rw orders-usual" {
		t.Errorf("poolers: %s", got)
	}
	pooler := decode[v1alpha1.Pooler](t, objects, "Pooler", "orders-rw")
	if pooler.Spec.Cluster.Name != "orders" || pooler.Spec.Instances != 2 || pooler.Spec.PoolSize != 20 || pooler.Annotations["owner"] != "payments" {
		t.Errorf("%+v", pooler)
	}
	if decode[v1alpha1.Pooler](t, objects, "Pooler", "orders-ro").Spec.Access != v1alpha1.PoolReadOnly {
		t.Error("it is not read-only")
	}
}

func TestTheChartOfAClusterUsesARepositoryThatExists(t *testing.T) {
	for name, values := range map[string]string{
		"by its name":              "{name: orders, repository: {name: shared}}",
		"by the cluster's spec":    "{name: orders, spec: {archive: {repository: {name: shared}}}}",
		"whatever else is created": "{name: orders, spec: {archive: {repository: {name: shared}}}, repository: {create: true, spec: {s3: {bucket: b}}}}",
	} {
		objects, err := renderCluster(t, values)
		if err != nil {
			t.Fatal(err)
		}
		cluster := decode[v1alpha1.PostgresCluster](t, objects, "PostgresCluster", "orders")
		if a := cluster.Spec.Archive; a == nil || a.Repository.Name != "shared" || len(ofKind(objects, "BackupSchedule")) != 2 {
			t.Errorf("%s: archives as %+v, with %d schedules", name, a, len(ofKind(objects, "BackupSchedule")))
		}
	}
}

func TestTheChartOfAClusterWithoutARepositoryHasNoSchedules(t *testing.T) {
	objects, err := renderCluster(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1 {
		t.Errorf("rendered %v", names(objects))
	}
	if cluster := decode[v1alpha1.PostgresCluster](t, objects, "PostgresCluster", "shop"); cluster.Spec.Archive != nil {
		t.Errorf("archives as %+v", cluster.Spec.Archive)
	}
}

func TestTheChartOfAClusterNamesTheValueThatIsWrong(t *testing.T) {
	for values, said := range map[string]string{
		"{spec: {version: latest}}":                                                    "/spec/version",
		"{spec: {storage: {size: null}}}":                                              "/spec/storage",
		"{repository: {create: true}}":                                                 "s3",
		"{repositry: {create: true}}":                                                  "repositry",
		"{schedules: {nightly: {schedule: null}}}":                                     "/schedules/nightly",
		"{schedules: {nightly: {cluster: {}}}}":                                        "/schedules/nightly",
		"{poolers: {rw: {cluster: {}}}}":                                               "/poolers/rw",
		"{poolers: {a-pooler-whose-name-is-much-too-long-for-it: {instances: 2}}}":     "at most 40 characters",
		"{name: a-database-with-a-name-of-40-characters-, repository: {name: shared}}": "/name",
		"{name: a-database-with-a-name-of-39-characters, repository: {name: shared}}":  "at most 41 characters",
		"{name: Shop}": "/name",
	} {
		if _, err := renderCluster(t, values); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: helm says %v", values, err)
		}
	}
}
