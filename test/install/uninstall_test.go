//go:build install

package install

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// eventually waits until something holds.
func (s *stranger) eventually(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			s.Fatalf("not within five minutes: %s\n%s", what, s.kubectl("get", "pgc,pods", "--all-namespaces", "--output", "wide"))
		}
	}
}

// get is a part of an object; empty: it isn't there, or the API server did not respond.
func (s *stranger) get(namespace, object, path string) string {
	s.Helper()
	out, err := s.try(filepath.Join(kubernetes(), "kubectl"), "get", object, "--namespace", namespace, "--output", "jsonpath="+path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// leader is the instance of hello that clients are led to.
func (s *stranger) leader() string {
	s.Helper()
	return s.get("default", "endpointslice/hello-rw", "{.endpoints[?(@.conditions.ready==true)].targetRef.name}")
}

func (s *stranger) sql(instance, statement string) string {
	s.Helper()
	return s.kubectl("exec", instance, "--namespace", "default", "--", "psql", "--no-align", "--tuples-only", "--command", statement, "app")
}

// pods of hello, and how often they were started.
func (s *stranger) pods() string {
	s.Helper()
	return s.get("default", "pods", `{range .items[?(@.metadata.labels.app\.kubernetes\.io/component=="instance")]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount} {.status.startTime}{"\n"}{end}`)
}

// uninstall removes the suite under a database, whose primary fails then, and installs it again without helm. docs/uninstall.md says what
// is to be expected.
func (s *stranger) uninstall() {
	s.timed("a replica", func() {
		s.kubectl("scale", "pgc/hello", "--replicas=2", "--namespace", "default")
		s.kubectl("wait", "--for=jsonpath={.status.readyInstances}=2", "pgc/hello", "--namespace", "default", "--timeout=300s")
		s.kubectl("wait", "--for=condition=Replicated", "pgc/hello", "--namespace", "default", "--timeout=300s")
	})
	s.run("build/bin/helm", "uninstall", "howdah", "--namespace", "howdah-system", "--wait")
	s.leavesOnlyKinds()
	before := s.leader()
	s.sql(before, "CREATE TABLE kept AS SELECT 1 AS n")
	s.eventually("the replica has the table", func() bool {
		other := map[string]string{"hello-0": "hello-1", "hello-1": "hello-0"}[before]
		out, err := s.try(filepath.Join(kubernetes(), "kubectl"), "exec", other, "--", "psql", "-Atc", "SELECT n FROM kept", "app")
		return err == nil && strings.TrimSpace(out) == "1"
	})
	s.timed("a failover without controllers", func() {
		s.kubectl("delete", "pod", before, "--namespace", "default", "--grace-period=0", "--force")
		s.eventually("another instance is primary", func() bool { now := s.leader(); return now != "" && now != before })
	})
	now := s.leader()
	s.sql(now, "INSERT INTO kept VALUES (2)")
	s.eventually("the former primary follows", func() bool {
		out, err := s.try(filepath.Join(kubernetes(), "kubectl"), "exec", before, "--", "psql", "-Atc", "SELECT sum(n) FROM kept", "app")
		return err == nil && strings.TrimSpace(out) == "3"
	})
	if !testing.Short() {
		s.sideBySide()
	}
	pods := s.pods()
	s.timed("kubectl apply", func() { s.typed("Without Helm") })
	for _, image := range s.podsOfTheSuite() {
		if !strings.HasPrefix(image, s.address+"/strangers/") {
			s.Errorf("install.yaml runs %s", image)
		}
	}
	s.timed("taking the database over", func() {
		s.kubectl("wait", "--for=jsonpath={.status.primary}="+now, "pgc/hello", "--namespace", "default", "--timeout=300s")
		s.kubectl("wait", "--for=condition=UpToDate", "pgc/hello", "--namespace", "default", "--timeout=300s")
	})
	if after := s.pods(); after != pods {
		s.Errorf("the database was restarted: %s, then %s", pods, after)
	}
	s.timed("another replica", func() {
		s.kubectl("scale", "pgc/hello", "--replicas=3", "--namespace", "default")
		s.kubectl("wait", "--for=jsonpath={.status.readyInstances}=3", "pgc/hello", "--namespace", "default", "--timeout=300s")
	})
}

// leavesOnlyKinds: of what is not in a namespace, only the CustomResourceDefinitions stay.
func (s *stranger) leavesOnlyKinds() {
	s.Helper()
	all, err := filepath.Glob(filepath.Join(root, "config/crd/howdah.dev_*.yaml"))
	if kinds := strings.Count(s.kubectl("get", "crd", "--output", "name"), ".howdah.dev"); err != nil || kinds != len(all) {
		s.Errorf("%d CustomResourceDefinitions are left", kinds)
	}
	left := s.kubectl("get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "--output", "name")
	for name := range strings.Lines(left) {
		if strings.Contains(name, "howdah") {
			s.Errorf("it has left %s", name)
		}
	}
}

// sideBySide runs two suites, each for one namespace, and looks at what they do to other namespaces: nothing.
func (s *stranger) sideBySide() {
	const cluster = "{apiVersion: howdah.dev/v1alpha1, kind: PostgresCluster, metadata: {name: inside, namespace: %}, spec: {version: 17, storage: {size: 1Gi}}}"
	hello := s.get("default", "pgc/hello", "{.metadata.resourceVersion}")
	for _, namespace := range []string{"one", "two", "outside"} {
		s.kubectl("create", "namespace", namespace)
		if namespace != "outside" {
			s.run("build/bin/helm", "install", "suite-"+namespace, "oci://"+s.address+"/strangers/charts/howdah", "--version", version, "--plain-http",
				"--namespace", "system-"+namespace, "--create-namespace", "--wait", "--set", "replicas=1,crds.install=false,watchNamespaces={"+namespace+"}")
		}
		s.run("bash", "-c", "echo '"+strings.Replace(cluster, "%", namespace, 1)+"' | "+filepath.Join(kubernetes(), "kubectl")+" create --filename -")
	}
	for _, namespace := range []string{"one", "two"} {
		s.timed("a database in "+namespace, func() {
			s.kubectl("wait", "--for=condition=Ready", "pgc/inside", "--namespace", namespace, "--timeout=300s")
		})
	}
	s.mayOnlyInside()
	s.untouched(hello)

	s.run("build/bin/helm", "uninstall", "suite-one", "--namespace", "system-one", "--wait")
	for _, namespace := range []string{"one", "two"} {
		s.kubectl("scale", "pgc/inside", "--replicas=2", "--namespace", namespace)
	}
	s.timed("a replica in two", func() {
		s.kubectl("wait", "--for=jsonpath={.status.readyInstances}=2", "pgc/inside", "--namespace", "two", "--timeout=300s")
	})
	if s.get("one", "pod/inside-1", "{.metadata.name}") != "" {
		s.Error("the suite of namespace two has acted in namespace one")
	}
	s.untouched(hello)
	s.run("build/bin/helm", "uninstall", "suite-two", "--namespace", "system-two", "--wait")
}

// untouched: neither a PostgresCluster that no suite watches, nor the namespace of another.
func (s *stranger) untouched(hello string) {
	s.Helper()
	if now := s.get("default", "pgc/hello", "{.metadata.resourceVersion}"); now != hello {
		s.Errorf("PostgresCluster hello was written: version %s, then %s", hello, now)
	}
	if touched := s.get("outside", "pgc/inside", "{.metadata.finalizers}{.status.conditions}"); touched != "" {
		s.Errorf("the PostgresCluster outside has %s", touched)
	}
	there := strings.Fields(s.kubectl("get", "configmaps,secrets,services,serviceaccounts,persistentvolumeclaims,pods,statefulsets,roles", "--namespace", "outside", "--output", "name"))
	if want := []string{"configmap/kube-root-ca.crt", "serviceaccount/default"}; !slices.Equal(there, want) {
		s.Errorf("outside has %v", there)
	}
}

// mayOnlyInside: the accounts have Roles where they watch, and no right in a namespace elsewhere.
func (s *stranger) mayOnlyInside() {
	s.Helper()
	rights := [][]string{{"get", "secrets"}, {"create", "statefulsets.apps"}, {"create", "jobs.batch"}, {"patch", "postgresclusters.howdah.dev/status"}, {"list", "pods"}}
	for _, namespace := range []string{"one", "two", "outside", "default", "kube-system"} {
		for _, right := range rights {
			if allowed := s.may("db-controller", namespace, right); allowed != (namespace == "one") {
				s.Errorf("the db-controller in namespace %s: may it %v? %t", namespace, right, allowed)
			}
		}
	}
	for _, controller := range []string{"backup-controller", "restore-controller", "upgrade-controller", "pooler-controller", "drill-controller"} {
		for _, namespace := range []string{"two", "outside"} {
			for _, right := range rights {
				if s.may(controller, namespace, right) {
					s.Errorf("the %s may %v in namespace %s", controller, right, namespace)
				}
			}
		}
	}
}

// may says whether the account of a controller of suite one has a right in a namespace.
func (s *stranger) may(controller, namespace string, right []string) bool {
	s.Helper()
	arguments := []string{"auth", "can-i", "--namespace", namespace, "--as", "system:serviceaccount:system-one:" + controller}
	out, err := s.try(filepath.Join(kubernetes(), "kubectl"), append(arguments, right...)...)
	return err == nil && strings.HasPrefix(strings.TrimSpace(out), "yes")
}
