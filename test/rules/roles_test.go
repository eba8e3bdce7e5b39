package rules

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// owners says whose status each controller writes, and no other's.
var owners = map[string][]string{
	"db-controller":      {"postgresclusters"},
	"backup-controller":  {"backuprepositories", "backups", "backupschedules"},
	"restore-controller": {"restores"},
	"upgrade-controller": {"upgrades"},
	"pooler-controller":  {"poolers"},
	"drill-controller":   {"failoverdrills", "failoverdrillschedules"},
}

var kinds = []string{"postgresclusters", "backuprepositories", "backups", "backupschedules", "restores", "upgrades", "poolers", "failoverdrills", "failoverdrillschedules"}

func role(t *testing.T, controller string) *rbacv1.ClusterRole {
	t.Helper()
	content, err := os.ReadFile("../../config/rbac/" + controller + "/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(content, role); err != nil {
		t.Fatal(err)
	}
	return role
}

func writes(rule rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rule.Verbs, func(verb string) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, verb)
	})
}

func TestAControllerWritesTheStatusOfItsOwnKindsAndNoOthers(t *testing.T) {
	for controller, own := range owners {
		wrote := map[string]bool{}
		for _, rule := range role(t, controller).Rules {
			if !writes(rule) || !slices.Contains(rule.APIGroups, "howdah.dev") {
				continue
			}
			for _, resource := range rule.Resources {
				if kind, isStatus := strings.CutSuffix(resource, "/status"); isStatus {
					wrote[kind] = true
				}
			}
		}
		for _, kind := range kinds {
			if want := slices.Contains(own, kind); wrote[kind] != want {
				t.Errorf("%s may write the status of %s: %t", controller, kind, wrote[kind])
			}
		}
	}
}

func TestNoRoleHasAWildcard(t *testing.T) {
	for controller := range owners {
		for _, rule := range role(t, controller).Rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				if slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") }) {
					t.Errorf("%s: %v", controller, rule)
				}
			}
		}
	}
}
