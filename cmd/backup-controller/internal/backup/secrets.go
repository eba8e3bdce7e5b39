package backup

import (
	"cmp"
	"maps"
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
)

// keptSecrets are the Secrets with the logins of a cluster, for the manifest: those that Howdah has made, and those that
// the spec names for declared roles. In a repository that is not encrypted there are none.
func keptSecrets(repo *v1alpha1.BackupRepository, cluster *v1alpha1.PostgresCluster) []agentapi.KeptSecret {
	if repo.Spec.Encryption == nil {
		return nil
	}
	connection := cluster.Status.Connection
	kept := []agentapi.KeptSecret{{Purpose: backup.SecretApplication, Name: connection.AppSecret}}
	if cluster.Spec.SuperuserAccess && connection.SuperuserSecret != "" {
		kept = append(kept, agentapi.KeptSecret{Purpose: backup.SecretSuperuser, Name: connection.SuperuserSecret})
	}
	for _, name := range slices.Sorted(maps.Keys(rolePasswords(cluster))) {
		if !slices.ContainsFunc(kept, func(k agentapi.KeptSecret) bool { return k.Name == name }) {
			kept = append(kept, agentapi.KeptSecret{Purpose: backup.SecretRole, Name: name})
		}
	}
	return kept
}

// rolePasswords are the keys with passwords of declared roles, by Secret.
func rolePasswords(cluster *v1alpha1.PostgresCluster) map[string][]string {
	keys := map[string][]string{}
	for _, role := range cluster.Spec.Roles {
		if where := role.PasswordSecret; where != nil && role.Ensure != v1alpha1.Absent {
			keys[where.Name] = append(keys[where.Name], cmp.Or(where.Key, "password"))
		}
	}
	return keys
}

// keysOf names what of these Secrets is mounted: nothing else of them is read.
func keysOf(kept []agentapi.KeptSecret, cluster *v1alpha1.PostgresCluster) map[string][]string {
	roles, keys := rolePasswords(cluster), map[string][]string{}
	for _, secret := range kept {
		names := slices.Clone(roles[secret.Name])
		if secret.Purpose != backup.SecretRole {
			names = append(names, "username", "password")
		}
		slices.Sort(names)
		keys[secret.Name] = slices.Compact(names)
	}
	return keys
}
