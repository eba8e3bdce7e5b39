package backup

import (
	"reflect"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func withRoles() *v1alpha1.PostgresCluster {
	cluster := &v1alpha1.PostgresCluster{}
	role := func(name, secret, key string) v1alpha1.Role {
		return v1alpha1.Role{Name: name, PasswordSecret: &v1alpha1.PasswordSecret{Name: secret, Key: key}}
	}
	cluster.Spec.Roles = []v1alpha1.Role{role("a", "logins", "a"), role("b", "logins", "b"), {Name: "group"}, role("c", "c-login", "")}
	cluster.Spec.SuperuserAccess = true
	cluster.Status.Connection = &v1alpha1.ConnectionStatus{AppSecret: "shop-app", SuperuserSecret: "shop-superuser"}
	return cluster
}

func TestTheLoginsOfAClusterGoIntoAnEncryptedRepositoryOnly(t *testing.T) {
	repo := &v1alpha1.BackupRepository{}
	if got := keptSecrets(repo, withRoles()); got != nil {
		t.Errorf("without encryption: %v", got)
	}
	repo.Spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
	want := []agentapi.KeptSecret{
		{Purpose: "Application", Name: "shop-app"}, {Purpose: "Superuser", Name: "shop-superuser"},
		{Purpose: "Role", Name: "c-login"}, {Purpose: "Role", Name: "logins"},
	}
	if got := keptSecrets(repo, withRoles()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestOfASecretOnlyTheLoginsAreMounted(t *testing.T) {
	repo := &v1alpha1.BackupRepository{}
	repo.Spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
	cluster := withRoles()
	want := map[string][]string{
		"shop-app": {"password", "username"}, "shop-superuser": {"password", "username"},
		"logins": {"a", "b"}, "c-login": {"password"},
	}
	if got := keysOf(keptSecrets(repo, cluster), cluster); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
