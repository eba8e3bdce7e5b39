package protocol

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestLoginsOfAClusterThatBeginsWithARestoreComeBeforeItsData(t *testing.T) {
	byRestore := &v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Name: "r"}}
	for name, test := range map[string]struct {
		bootstrap *v1alpha1.Bootstrap
		system    string
		want      bool
	}{
		"a new cluster":                         {nil, "", true},
		"a new cluster with a database":         {&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{}}, "", true},
		"one that waits for a Restore":          {byRestore, "", false},
		"one that took over what it waited for": {byRestore, "7", true},
	} {
		cluster := &v1alpha1.PostgresCluster{Spec: v1alpha1.PostgresClusterSpec{Bootstrap: test.bootstrap}}
		cluster.Status.SystemIdentifier = test.system
		if got := CreatesLogins(cluster); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestALoginThatARestoreCreatedIsTheClustersOwn(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "copy", UID: "c"}}
	another := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "copy", UID: "d"}}
	secret := func(owners ...metav1.OwnerReference) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Name: "copy-app", OwnerReferences: owners}
	}
	for name, test := range map[string]struct {
		cluster *v1alpha1.PostgresCluster
		secret  *metav1.ObjectMeta
		want    bool
	}{
		"made for it":                    {cluster, secret(LoginOwner(cluster, true)), true},
		"made for one of its name":       {cluster, secret(LoginOwner(another, true)), false},
		"one of a declared role":         {cluster, secret(LoginOwner(cluster, false)), false},
		"a person's":                     {cluster, secret(), false},
		"there is no cluster for it yet": {nil, secret(LoginOwner(another, true)), false},
	} {
		if got := LoginsOf(test.cluster, test.secret); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
