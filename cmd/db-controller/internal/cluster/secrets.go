package cluster

import (
	"fmt"
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/manager"
)

// secretsAllowed: spec.pods brings no Secret into a container, and an import and LDAP send none to another server, that has keys or passwords which only Howdah needs. A rule of the
// CRD can't compare names with that of the cluster, as that may be of any length there.
func secretsAllowed(o *observed.Cluster, _ manager.Images) (string, string) {
	reserved := slices.DeleteFunc(o.Names.Secrets(), func(name string) bool { return name == o.Names.App() })
	for _, used := range slices.Concat(secretsOf(&o.Cluster.Spec.Pods), secretsOfImport(o.Cluster.Spec.Bootstrap), secretOfLDAP(&o.Cluster.Spec.PostgreSQL)) {
		if slices.Contains(reserved, used.name) {
			return v1alpha1.ReasonSecretReserved, fmt.Sprintf("%s has Secret %s, with keys or passwords that only Howdah needs. "+
				"Use a Secret of your own, the certificateSecret of a role in spec.roles, or the application's Secret %s.", used.field, used.name, o.Names.App())
		}
	}
	return "", ""
}

// use of a Secret by a field of spec.
type use struct{ field, name string }

func secretOfLDAP(spec *v1alpha1.PostgreSQLSpec) []use {
	if spec.LDAPPasswordSecret == nil {
		return nil
	}
	return []use{{"spec.postgresql.ldapPasswordSecret", spec.LDAPPasswordSecret.Name}}
}

func secretsOfImport(bootstrap *v1alpha1.Bootstrap) (all []use) {
	if bootstrap == nil || bootstrap.Import == nil {
		return nil
	}
	source := bootstrap.Import.Source
	for field, key := range map[string]*v1alpha1.ImportSecretKey{"passwordSecret": source.PasswordSecret, "caSecret": source.CASecret} {
		if key != nil {
			all = append(all, use{"spec.bootstrap.import.source." + field, key.Name})
		}
	}
	if source.ClientCertificateSecret != nil {
		all = append(all, use{"spec.bootstrap.import.source.clientCertificateSecret", source.ClientCertificateSecret.Name})
	}
	return all
}

func secretsOf(pods *v1alpha1.Pods) []use {
	var all []use
	variables := func(field string, env []v1alpha1.EnvVar) {
		for _, v := range env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				all = append(all, use{field, v.ValueFrom.SecretKeyRef.Name})
			}
		}
	}
	for _, v := range pods.Volumes {
		field := fmt.Sprintf("spec.pods.volumes[%s]", v.Name)
		if v.Secret != nil {
			all = append(all, use{field, v.Secret.SecretName})
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				all = append(all, use{field, source.Secret.Name})
			}
		}
	}
	variables("spec.pods.env", pods.Env)
	for _, c := range pods.Containers {
		variables(fmt.Sprintf("spec.pods.containers[%s]", c.Name), c.Env)
	}
	for _, c := range pods.InitContainers {
		variables(fmt.Sprintf("spec.pods.initContainers[%s]", c.Name), c.Env)
	}
	return all
}
