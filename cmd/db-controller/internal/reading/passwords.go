package reading

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// readPasswords reads those of declared roles from the Secrets that people have created.
func (r *Reader) readPasswords(ctx context.Context, o *observed.Cluster) error {
	o.Passwords = map[string][]byte{}
	for i := range o.Cluster.Spec.Roles {
		role := &o.Cluster.Spec.Roles[i]
		if role.PasswordSecret == nil || role.Ensure == v1alpha1.Absent {
			continue
		}
		source, err := r.Secrets.Borrow(ctx, r.Client, o.Cluster, role.PasswordSecret.Name, o.Now)
		if err != nil {
			return err
		}
		password, missing := passwordIn(source, role.PasswordSecret)
		if missing != "" {
			o.NoPasswords = append(o.NoPasswords, fmt.Sprintf("role %s has no password: %s", role.Name, missing))
			continue
		}
		o.Passwords[role.Name] = password
	}
	return nil
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
