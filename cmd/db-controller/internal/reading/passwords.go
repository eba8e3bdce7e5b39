package reading

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
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
		password, missing := passwordIn(source, wanted.where)
		if _, err := postgres.RenderLDAPPassword(string(password)); err != nil && wanted.key == agentapi.LDAPPasswordKey {
			o.NoPasswords = append(o.NoPasswords, fmt.Sprintf("%s has a password in Secret %s, under the key %s, that can't be used: %v; "+
				"give the directory's account such a one, and write it there", wanted.subject, wanted.where.Name, wanted.where.Key, err))
			continue
		}
		if missing != "" {
			o.NoPasswords = append(o.NoPasswords, fmt.Sprintf("%s has no password: %s", wanted.subject, missing))
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

// passwordIn says what is missing, if there is no password.
func passwordIn(source *corev1.Secret, where *v1alpha1.PasswordSecret) (password []byte, missing string) {
	if source == nil {
		return nil, fmt.Sprintf("there is no Secret %s; create it with the key %s", where.Name, where.Key)
	}
	password = bytes.TrimRight(source.Data[where.Key], "\r\n")
	if len(password) == 0 {
		return nil, fmt.Sprintf("Secret %s has nothing under the key %s; write the password there", where.Name, where.Key)
	}
	return password, ""
}
