// Package servertls decides which certificate the servers of a cluster show, and which CAs their clients trust beside Howdah's. It is pure: it
// goes by what a person has in a Secret, by what database pods have, and by what the agents tell.
package servertls

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

const keyAuthority = "ca.crt"

// Settle is how long clients are to trust a CA before servers show what it has signed: kubelets update mounted Secrets within that time.
const Settle = 2 * time.Minute

// Kept is what database pods have of a person's own. It lies in their Secret, so that it outlives what it was taken from.
type Kept struct {
	// Pair that servers show; empty: Howdah's.
	Pair certificate.Pair
	// Trust are the roots that clients trust beside Howdah's CA, in PEM, and Since is when the last one was added.
	Trust []byte
	Since time.Time
	// LDAP are the CAs of directories, in PEM; empty: those of the image.
	LDAP []byte
	// Clients are the CAs whose certificates clients may log in with beside those of Howdah's, in PEM.
	Clients []byte
}

// Input is what a decision follows from.
type Input struct {
	Cluster *v1alpha1.PostgresCluster
	// Name of the Secret that spec has; empty: servers are to show Howdah's certificate.
	Name   string
	Source *corev1.Secret // nil: there is none
	// Names that the certificate has to be for.
	Names []string
	Kept  Kept
	// Fresh: nothing of the cluster has ever run, so that nobody has to be told first.
	Fresh bool
	// Pods of the instances, and whether there are none and none will be started. A server may run in each of them.
	Pods    []string
	Stopped bool
	// Agents that answered, by instance.
	Agents map[string]*agentapi.Status
	Now    time.Time
}

// Decide says what database pods get, and whether that is what spec wants. What was good stays for as long as nothing better is known.
func (in *Input) Decide() (Kept, condition.Finding) {
	next := in.Kept
	if _, err := agentapi.ValidUntil(next.Pair.Certificate, next.Trust, in.Now); err != nil {
		next.Pair = certificate.Pair{} // replicas would refuse it
	}
	if in.Name == "" {
		return in.withdraw(next)
	}
	found, refused := in.judge()
	if refused != nil {
		return next, condition.False(refused.reason, refused.message+" "+in.meanwhile(next))
	}
	if bytes.Equal(next.Pair.Certificate, found.pair.Certificate) && bytes.Equal(next.Pair.Key, found.pair.Key) {
		return in.shown(next, found)
	}
	if !contains(next.Trust, found.root) {
		next.Trust = append(bytes.Clone(next.Trust), found.root...)
		if !in.Fresh {
			next.Since = in.Now
			return next, in.applying(fmt.Sprintf("Instances and clients receive the CA of Secret %s first.", in.Name))
		}
	}
	if wait := in.distrust(next); wait != "" && !in.Fresh {
		return next, in.applying(wait)
	}
	next.Pair = found.pair
	return next, in.applying(in.unshown(found))
}

// withdraw goes back to Howdah's certificate, and drops the CAs when it is known of every server that it shows no other one.
func (in *Input) withdraw(next Kept) (Kept, condition.Finding) {
	next.Pair = certificate.Pair{}
	waiting := in.silent()
	for name, agent := range in.Agents {
		if agent.ServerTLS != nil && agent.ServerTLS.Certificate != "" {
			waiting = append(waiting, name)
		}
	}
	slices.Sort(waiting)
	switch {
	case len(next.Trust) == 0:
		return next, condition.Finding{}
	case len(waiting) > 0:
		return next, in.applying(fmt.Sprintf("These instances have not yet reported that they present Howdah's certificate again: %s. Until they do, clients and instances also trust the previous CA.", phrase.List(waiting)))
	case len(in.Kept.Pair.Certificate) > 0: // instances are only told of it with this pass
		return next, in.applying("The servers switch back to the certificate that Howdah issued.")
	}
	next.Trust, next.Since = nil, time.Time{}
	return next, condition.Finding{}
}

// silent are the instances whose agents did not respond: their servers may show what they had.
func (in *Input) silent() (names []string) {
	for _, name := range in.Pods {
		if in.Agents[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// shown is what becomes of a certificate that pods have: once it is known that every instance shows it, only its root is trusted.
func (in *Input) shown(next Kept, found *candidate) (Kept, condition.Finding) {
	for _, name := range in.answering() {
		if told := in.Agents[name].ServerTLS; told != nil && told.Problem != "" {
			return next, condition.False(v1alpha1.ReasonCertificateRefused, fmt.Sprintf("Instance %s: %s", name, told.Problem))
		}
	}
	if wait := in.unshown(found); wait != "" {
		return next, in.applying(wait)
	}
	if len(in.silent()) == 0 {
		next.Trust = found.root
	}
	if in.Stopped {
		return next, condition.True(v1alpha1.ReasonCurrent, fmt.Sprintf("The servers will present the certificate of Secret %s when they start. It is valid until %s.", in.Name, date(found.until)))
	}
	return next, condition.True(v1alpha1.ReasonCurrent, fmt.Sprintf("The servers present the certificate of Secret %s, which is valid until %s.", in.Name, date(found.until)))
}

// distrust says who doesn't trust all CAs yet, or nothing.
func (in *Input) distrust(next Kept) string {
	wanted := agentapi.HashTLS(next.Trust)
	var waiting []string
	for _, name := range in.answering() {
		told := in.Agents[name].ServerTLS
		if told == nil {
			return fmt.Sprintf("Instance %s has an agent of an earlier version; delete its pod, and the servers present the certificate of Secret %s.", name, in.Name)
		}
		if told.Trust != wanted {
			waiting = append(waiting, name)
		}
	}
	switch {
	case len(in.answering()) == 0 && !in.Stopped:
		return "No instance has answered yet."
	case len(waiting) > 0:
		return fmt.Sprintf("These instances do not yet trust the CA of Secret %s: %s.", in.Name, phrase.List(waiting))
	case in.Now.Before(next.Since.Add(Settle)):
		return fmt.Sprintf("Clients get the CA of Secret %s until %s; then the servers present its certificate.", in.Name, next.Since.Add(Settle).UTC().Format(time.RFC3339))
	}
	return ""
}

// unshown says who doesn't show the certificate yet, or nothing.
func (in *Input) unshown(found *candidate) string {
	wanted := agentapi.HashTLS(found.pair.Certificate)
	var waiting []string
	for _, name := range in.answering() {
		if told := in.Agents[name].ServerTLS; told == nil || told.Certificate != wanted {
			waiting = append(waiting, name)
		}
	}
	switch {
	case in.Stopped:
		return ""
	case len(in.answering()) == 0:
		return "No instance has answered yet."
	case len(waiting) > 0:
		return fmt.Sprintf("These instances do not yet present the certificate of Secret %s: %s.", in.Name, phrase.List(waiting))
	}
	return ""
}

// answering are the instances with a server whose agents answered, in order. The others are not waited for where something is added, such as one
// whose data is being cloned, which may take hours: they get CA and certificate together.
func (in *Input) answering() (names []string) {
	for name, agent := range in.Agents {
		if agent.DataGeneration != "" && agent.Rejoin == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (in *Input) applying(message string) condition.Finding {
	if message == "" {
		message = fmt.Sprintf("The servers receive the certificate of Secret %s.", in.Name)
	}
	return condition.False(v1alpha1.ReasonApplying, message)
}

// meanwhile says what the servers show.
func (in *Input) meanwhile(next Kept) string {
	if until, err := agentapi.ValidUntil(next.Pair.Certificate, next.Trust, in.Now); err == nil {
		return fmt.Sprintf("Until then, the servers present the previous certificate, which is valid until %s.", date(until))
	}
	return "Until then, the servers present Howdah's certificate."
}

func date(until time.Time) string { return until.UTC().Format(time.RFC3339) }

// contains says whether a bundle has a certificate, both in PEM.
func contains(bundle, certificate []byte) bool { return bytes.Contains(bundle, certificate) }
