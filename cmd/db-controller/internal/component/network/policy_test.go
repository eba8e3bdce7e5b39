package network

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
)

func shop(policy *v1alpha1.NetworkPolicy) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"},
		Spec:       v1alpha1.PostgresClusterSpec{NetworkPolicy: policy},
	}
}

func TestWithoutASpecThereIsNoPolicy(t *testing.T) {
	if policy := Policy(shop(nil), "howdah-system"); policy != nil {
		t.Errorf("%+v", policy)
	}
}

// asYAML is the spec of a policy as one reads it.
func asYAML(t *testing.T, cluster *v1alpha1.PostgresCluster, suite string) string {
	t.Helper()
	content, err := yaml.Marshal(Policy(cluster, suite).Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestByDefaultTheNamespaceIsLetInToPostgreSQLAndNobodyIsKeptFromGoingOut(t *testing.T) {
	const want = `ingress:
- from:
  - podSelector:
      matchLabels:
        app.kubernetes.io/managed-by: howdah
        howdah.dev/cluster: shop
  ports:
  - port: 5432
    protocol: TCP
  - port: 8443
    protocol: TCP
  - port: 8443
    protocol: UDP
- from:
  - namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: howdah-system
    podSelector:
      matchLabels:
        app.kubernetes.io/name: db-controller
        app.kubernetes.io/part-of: howdah
  ports:
  - port: 8443
    protocol: TCP
- from:
  - podSelector: {}
  ports:
  - port: 5432
    protocol: TCP
podSelector:
  matchLabels:
    app.kubernetes.io/managed-by: howdah
    howdah.dev/cluster: shop
policyTypes:
- Ingress
`
	if got := asYAML(t, shop(&v1alpha1.NetworkPolicy{}), "howdah-system"); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestTheSourceOfAnImportCanBeReachedUntilTheClusterHasRun(t *testing.T) {
	cluster := shop(&v1alpha1.NetworkPolicy{Egress: []v1alpha1.NetworkDestination{{NetworkPeer: v1alpha1.NetworkPeer{CIDR: "10.9.0.0/16"}}}})
	rules := len(Policy(cluster, "").Spec.Egress)
	cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{Source: v1alpha1.ImportSource{Host: "db.example.com", Port: 5433}}}
	opened := Policy(cluster, "").Spec.Egress
	if len(opened) != rules+1 || len(opened[3].To) != 0 || len(opened[3].Ports) != 1 || opened[3].Ports[0].Port.IntVal != 5433 {
		t.Errorf("by a name: %+v", opened)
	}
	for host, cidr := range map[string]string{"192.0.2.7": "192.0.2.7/32", "2001:db8::7": "2001:db8::7/128"} {
		cluster.Spec.Bootstrap.Import.Source.Host = host
		if opened = Policy(cluster, "").Spec.Egress; len(opened[3].To) != 1 || opened[3].To[0].IPBlock.CIDR != cidr {
			t.Errorf("by an address: %+v", opened[3])
		}
	}
	cluster.Status.SystemIdentifier = "7"
	if closed := Policy(cluster, "").Spec.Egress; len(closed) != rules {
		t.Errorf("it stays open: %+v", closed)
	}
}

func TestTheClusterThatIsClonedCanBeReachedUntilTheCloneHasRun(t *testing.T) {
	cluster := shop(&v1alpha1.NetworkPolicy{Egress: []v1alpha1.NetworkDestination{{NetworkPeer: v1alpha1.NetworkPeer{CIDR: "10.9.0.0/16"}}}})
	rules := len(Policy(cluster, "").Spec.Egress)
	cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Clone: &v1alpha1.BootstrapClone{Cluster: v1alpha1.LocalReference{Name: "orders"}}}
	opened := Policy(cluster, "").Spec.Egress
	if len(opened) != rules+1 || len(opened[3].To) != 1 || opened[3].To[0].PodSelector.MatchLabels[v1alpha1.LabelCluster] != "orders" || opened[3].Ports[0].Port.IntVal != 5432 {
		t.Errorf("%+v", opened)
	}
	cluster.Status.SystemIdentifier = "7"
	if closed := Policy(cluster, "").Spec.Egress; len(closed) != rules {
		t.Errorf("it stays open: %+v", closed)
	}
}

func TestWhoIsNamedIsLetInOrMayBeReached(t *testing.T) {
	cluster := shop(&v1alpha1.NetworkPolicy{
		Clients: []v1alpha1.NetworkPeer{
			{Pods: v1alpha1.NetworkLabels{"app": "web"}},
			{Namespaces: v1alpha1.NetworkLabels{"team": "a"}},
			{CIDR: "10.0.0.0/8"},
		},
		Metrics: []v1alpha1.NetworkPeer{{Namespaces: v1alpha1.NetworkLabels{"team": "m"}, Pods: v1alpha1.NetworkLabels{"app": "prometheus"}}},
		Egress:  []v1alpha1.NetworkDestination{{NetworkPeer: v1alpha1.NetworkPeer{CIDR: "10.9.0.0/16"}, Ports: []v1alpha1.NetworkPort{9000}}},
	})
	cluster.Spec.Pods.Containers = []v1alpha1.PodContainer{{Name: "exporter", Ports: []v1alpha1.PodPort{{ContainerPort: 9999}}}}
	const want = `egress:
- ports:
  - port: 5432
    protocol: TCP
  - port: 8443
    protocol: TCP
  - port: 8443
    protocol: UDP
  to:
  - podSelector:
      matchLabels:
        app.kubernetes.io/managed-by: howdah
        howdah.dev/cluster: shop
- ports:
  - port: 53
    protocol: UDP
  - port: 5353
    protocol: UDP
  - port: 53
    protocol: TCP
  - port: 5353
    protocol: TCP
- ports:
  - port: 443
    protocol: TCP
  - port: 6443
    protocol: TCP
- ports:
  - port: 9000
    protocol: TCP
  to:
  - ipBlock:
      cidr: 10.9.0.0/16
ingress:
- from:
  - podSelector:
      matchLabels:
        app.kubernetes.io/managed-by: howdah
        howdah.dev/cluster: shop
  ports:
  - port: 5432
    protocol: TCP
  - port: 8443
    protocol: TCP
  - port: 8443
    protocol: UDP
- from:
  - namespaceSelector: {}
    podSelector:
      matchLabels:
        app.kubernetes.io/name: db-controller
        app.kubernetes.io/part-of: howdah
  ports:
  - port: 8443
    protocol: TCP
- from:
  - podSelector:
      matchLabels:
        app: web
  - namespaceSelector:
      matchLabels:
        team: a
    podSelector: {}
  - ipBlock:
      cidr: 10.0.0.0/8
  - podSelector:
      matchLabels:
        app.kubernetes.io/component: init
        app.kubernetes.io/managed-by: howdah
  - podSelector:
      matchLabels:
        app.kubernetes.io/component: table-restore
        app.kubernetes.io/managed-by: howdah
  ports:
  - port: 5432
    protocol: TCP
- from:
  - namespaceSelector:
      matchLabels:
        team: m
    podSelector:
      matchLabels:
        app: prometheus
  ports:
  - port: 8443
    protocol: TCP
  - port: 9187
    protocol: TCP
  - port: 9999
    protocol: TCP
podSelector:
  matchLabels:
    app.kubernetes.io/managed-by: howdah
    howdah.dev/cluster: shop
policyTypes:
- Ingress
- Egress
`
	if got := asYAML(t, cluster, ""); got != want {
		t.Errorf("got\n%s", got)
	}
}
