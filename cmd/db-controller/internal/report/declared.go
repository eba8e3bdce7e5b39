package report

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
)

// reportDeclared adds the condition of declared roles and databases, where there are some, or a password is missing.
func reportDeclared(o *observed.Cluster, conditions map[string]condition.Finding) {
	known := &o.Cluster.Status.Conditions
	waits := o.Cluster.Spec.PostgreSQL.LDAPPasswordSecret != nil && len(o.NoPasswords) > 0
	if !o.Begun() || desired.AgentConfig(o).Declared == nil && !waits {
		meta.RemoveStatusCondition(known, v1alpha1.ConditionRolesAndDatabasesReady)
		return
	}
	before := meta.FindStatusCondition(*known, v1alpha1.ConditionRolesAndDatabasesReady)
	found := Declared(o)
	if found.Reason == v1alpha1.ReasonApplying && before != nil && before.ObservedGeneration == o.Cluster.Generation {
		return // an agent that doesn't respond for a moment, or a new primary, changes nothing
	}
	conditions[v1alpha1.ConditionRolesAndDatabasesReady] = found
}

// noPasswords says what is wrong with all, and why with the first.
func noPasswords(wrong []condition.Finding) condition.Finding {
	var sentences []string
	for _, each := range wrong {
		sentences = append(sentences, each.Message)
	}
	return condition.False(wrong[0].Reason, phrase.First(sentences))
}

// Declared says whether roles and databases are as they are declared.
func Declared(o *observed.Cluster) condition.Finding {
	agent := o.PrimaryAgent()
	switch {
	case len(o.NoPasswords) > 0:
		return noPasswords(o.NoPasswords)
	case len(o.NoCertificates) > 0:
		return condition.False(v1alpha1.ReasonNameConflict, phrase.First(o.NoCertificates))
	case agent == nil || agent.Declared == nil || agent.Declared.Hash != desired.AgentConfig(o).Declared.Hash():
		return condition.False(v1alpha1.ReasonApplying, "The primary has yet to apply the declared roles and databases.")
	case len(agent.Declared.Problems) > 0:
		return condition.False(v1alpha1.ReasonNotAsDeclared, phrase.First(agent.Declared.Problems))
	}
	return condition.True(v1alpha1.ReasonCurrent, "Roles and databases are as spec declares them.")
}
