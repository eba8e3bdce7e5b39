package reading

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// readPasswords reads those of declared roles, subscriptions and LDAP from the Secrets that people have created.
func (r *Reader) readPasswords(ctx context.Context, o *observed.Cluster) error {
	o.Passwords = map[string][]byte{}
	for _, wanted := range passwords(&o.Cluster.Spec) {
		source, err := r.Secrets.Borrow(ctx, r.Client, o.Cluster, wanted.where.Name, o.Now)
		if err != nil {
			return err
		}
		password, missing := passwordIn(source, wanted)
		if missing.Reason != "" {
			o.NoPasswords = append(o.NoPasswords, missing)
			continue
		}
		o.Passwords[wanted.key] = password
	}
	return nil
}

// password that is declared: whose, where it stands, and under which key the agent gets it.
type password struct {
	subject, key string
	where        *v1alpha1.PasswordSecret
}

func passwords(spec *v1alpha1.PostgresClusterSpec) (all []password) {
	if where := spec.PostgreSQL.LDAPPasswordSecret; where != nil {
		all = append(all, password{"LDAP (spec.postgresql.ldapPasswordSecret)", agentapi.LDAPPasswordKey, where})
	}
	for i := range spec.Roles {
		if role := &spec.Roles[i]; role.PasswordSecret != nil && role.Ensure != v1alpha1.Absent {
			all = append(all, password{"role " + role.Name, role.Name, role.PasswordSecret})
		}
	}
	for i := range spec.Databases {
		database := &spec.Databases[i]
		for j := range database.Subscriptions {
			s := &database.Subscriptions[j]
			if s.Publisher != nil && s.Ensure != v1alpha1.Absent {
				subject := fmt.Sprintf("subscription %s in database %s", s.Name, database.Name)
				all = append(all, password{subject, agentapi.PasswordKey(database.Name, s.Name), &s.Publisher.PasswordSecret})
			}
		}
	}
	return all
}

// passwordIn says what is wrong, if there is no password.
func passwordIn(source *corev1.Secret, wanted password) (content []byte, wrong condition.Finding) {
	name, key := wanted.where.Name, wanted.where.Key
	if source == nil {
		return nil, condition.False(v1alpha1.ReasonSecretNotFound, fmt.Sprintf("%s has no password: there is no Secret %s; create it with the key %s", wanted.subject, name, key))
	}
	content = bytes.TrimRight(source.Data[key], "\r\n")
	if len(content) == 0 {
		return nil, condition.False(v1alpha1.ReasonPasswordMissing, fmt.Sprintf("%s has no password: Secret %s has nothing under the key %s; write the password there", wanted.subject, name, key))
	}
	if _, err := postgres.RenderLDAPPassword(string(content)); err != nil && wanted.key == agentapi.LDAPPasswordKey {
		return nil, condition.False(v1alpha1.ReasonPasswordRefused, fmt.Sprintf("%s has a password in Secret %s, under the key %s, that can't be used: %v; "+
			"change the password of the account in the directory, and write the new one into the Secret", wanted.subject, name, key, err))
	}
	return content, condition.Finding{}
}
