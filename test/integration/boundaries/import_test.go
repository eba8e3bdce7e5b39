//go:build integration

package boundaries

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// The init Job of an import says how far it is, in a ConfigMap of its own name: the status of the cluster is not its to write.
func TestTheInitJobOfAnImportReportsIntoItsOwnConfigMapAndGetsAtNothingElse(t *testing.T) {
	apiserver.InstallBoundaries(t)
	namespace := apiserver.Namespace(t, apiserver.Client(t))
	as := apiserver.ClientAs(t, "db-controller")
	importing := controllers(namespace)["db-controller"].normal()
	importing.OldImage, importing.Secrets = "", map[string][]string{"legacy": {"password", "ca.crt"}}
	importing.Progress = &agentapi.Object{Kind: agentapi.KindConfigMap, Resource: "configmaps", Namespace: namespace, Name: importing.Name}
	if err := importing.Ensure(t.Context(), as); err != nil {
		t.Fatalf("its own Job is refused: %v", err)
	}
	for what, rule := range map[string]rbacv1.PolicyRule{
		"the configuration of the instances": {APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"shop-config"}, Verbs: []string{"patch"}},
		"reading it":                         {APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"shop-init"}, Verbs: []string{"get"}},
		"Secrets":                            {APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"shop-init"}, Verbs: []string{"patch"}},
		"pods":                               {APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"shop-init"}, Verbs: []string{"patch"}},
		"the status of the cluster":          {APIGroups: []string{"howdah.dev"}, Resources: []string{"postgresclusters/status"}, ResourceNames: []string{"shop"}, Verbs: []string{"patch"}},
	} {
		t.Run(what, func(t *testing.T) {
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x-init", Labels: ours()}, Rules: []rbacv1.PolicyRule{rule}}
			refused(t, client.NewDryRunClient(as).Create(t.Context(), role))
		})
	}
}
