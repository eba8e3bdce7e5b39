package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
)

// declaring: the agents are told of something that those of the first suite don't know.
func (w *world) declaring() bool {
	spec := &w.cluster.Spec
	return len(spec.Roles) > 0 || len(spec.Databases) > 0 || len(spec.PostgreSQL.HBA) > 0
}

// readPasswords reads those of declared roles from the Secrets that people have made.
func (r *Reconciler) readPasswords(ctx context.Context, w *world) error {
	w.passwords = map[string][]byte{}
	for i := range w.cluster.Spec.Roles {
		role := &w.cluster.Spec.Roles[i]
		if role.PasswordSecret == nil || role.Ensure == v1alpha1.Absent {
			continue
		}
		source, err := r.secrets.borrow(ctx, r.Client, w.cluster, role.PasswordSecret.Name, w.now)
		if err != nil {
			return err
		}
		password, missing := passwordIn(source, role.PasswordSecret)
		if missing != "" {
			w.noPasswords = append(w.noPasswords, fmt.Sprintf("role %s has no password: %s", role.Name, missing))
			continue
		}
		w.passwords[role.Name] = password
	}
	return nil
}

// passwordIn says what is missing, if there is no password.
func passwordIn(source *corev1.Secret, where *v1alpha1.PasswordSecret) (password []byte, missing string) {
	if source == nil {
		return nil, fmt.Sprintf("there is no Secret %s: make it with the key %s", where.Name, where.Key)
	}
	password = bytes.TrimRight(source.Data[where.Key], "\r\n")
	if len(password) == 0 {
		return nil, fmt.Sprintf("Secret %s has nothing under the key %s: write the password there", where.Name, where.Key)
	}
	return password, ""
}

// told are the annotations by which pods know that there is something new for them.
func (w *world) told() map[string]string {
	told := map[string]string{v1alpha1.AnnotationConfigHash: w.agentConfig().Hash()}
	if revision := w.passwordRevision(); revision != "" {
		told[statefulset.AnnotationPasswords] = revision
	}
	return told
}

// passwordRevision is that of the passwords in the Secret of database pods; empty: there is none yet.
func (w *world) passwordRevision() string {
	if copied := w.secret(w.names.InstanceSecret()); copied != nil {
		return copied.Annotations[secret.AnnotationRevision]
	}
	return ""
}

// reportDeclared adds the condition of declared roles and databases, where there are some.
func reportDeclared(w *world, conditions map[string]finding) {
	known := &w.cluster.Status.Conditions
	if !w.begun() || w.agentConfig().Declared == nil {
		meta.RemoveStatusCondition(known, v1alpha1.ConditionRolesAndDatabasesReady)
		return
	}
	before := meta.FindStatusCondition(*known, v1alpha1.ConditionRolesAndDatabasesReady)
	found := declared(w)
	if found.reason == v1alpha1.ReasonApplying && before != nil && before.ObservedGeneration == w.cluster.Generation {
		return // an agent that doesn't answer for a moment, or a new primary, changes nothing
	}
	conditions[v1alpha1.ConditionRolesAndDatabasesReady] = found
}

// declared says whether roles and databases are as they are declared.
func declared(w *world) finding {
	agent := w.primaryAgent()
	switch {
	case len(w.noPasswords) > 0:
		return no(v1alpha1.ReasonSecretNotFound, few(w.noPasswords))
	case len(w.noCertificates) > 0:
		return no(v1alpha1.ReasonNameConflict, few(w.noCertificates))
	case agent == nil || agent.Declared == nil || agent.Declared.Hash != w.agentConfig().Declared.Hash():
		return no(v1alpha1.ReasonApplying, "The primary has yet to see to roles and databases.")
	case len(agent.Declared.Problems) > 0:
		return no(v1alpha1.ReasonNotAsDeclared, few(agent.Declared.Problems))
	}
	return yes(v1alpha1.ReasonCurrent, "Roles and databases are as spec declares them.")
}

// few are the first of many sentences: a status is no log.
func few(sentences []string) string {
	const most, longest = 3, 300
	var parts []string
	for _, s := range sentences[:min(most, len(sentences))] {
		if len(s) > longest {
			s = strings.ToValidUTF8(s[:longest], "") + "…"
		}
		parts = append(parts, s)
	}
	if more := len(sentences) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return sentence(strings.Join(parts, "; "))
}

// declaredInterval is how soon to look again for the sake of what is declared.
func declaredInterval(w *world) time.Duration {
	if w.begun() && w.agentConfig().Declared != nil && declared(w).reason != v1alpha1.ReasonCurrent {
		return unknownInterval
	}
	return quietInterval
}
