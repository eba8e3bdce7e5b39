package servertls

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// mostBytes of a bundle: it is copied into the Secret of database pods.
const mostBytes = 128 << 10

// Bundle is where CAs that servers are to trust for one purpose come from, and what was found there.
type Bundle struct {
	Purpose
	Wanted  *v1alpha1.CABundle // nil: none
	Found   bool               // there is such a ConfigMap or Secret
	Content []byte             // of the key
}

// Purpose of CAs, in the words of messages.
type Purpose struct {
	field     string                                                 // of the PostgresCluster
	waiting   string                                                 // what instances have yet to do, with the source and the instances
	withdrawn string                                                 // the same when no CAs are wanted any more, with the instances
	current   string                                                 // what the servers do, with the source
	meanwhile string                                                 // what continues while something is wrong
	authority bool                                                   // OpenSSL needs CAs that say that they are some
	told      func(*agentapi.ServerTLSStatus) (hash, problem string) // by an instance
}

// Directories are where rules of pg_hba.conf with ldap look people up.
func Directories(wanted *v1alpha1.CABundle) Bundle {
	return Bundle{Wanted: wanted, Purpose: Purpose{
		field:     "spec.postgresql.ldapCA",
		waiting:   "These instances do not yet trust the CAs of %s for LDAP connections: %s.",
		withdrawn: "These instances do not yet trust the CAs of their image for LDAP connections again: %s.",
		current:   "The servers trust the CAs of %s when they connect to LDAP directories.",
		meanwhile: "until then, logins by ldap continue with the CAs that the servers have",
		told:      func(t *agentapi.ServerTLSStatus) (string, string) { return t.LDAP, "" },
	}}
}

// Clients log in with certificates where rules of pg_hba.conf have cert.
func Clients(wanted *v1alpha1.CABundle) Bundle {
	return Bundle{Wanted: wanted, Purpose: Purpose{
		field:     "spec.tls.clientCABundle",
		waiting:   "These instances do not yet accept client certificates of the CAs of %s: %s.",
		withdrawn: "These instances still accept client certificates of the previous CAs: %s.",
		current:   "The servers accept client certificates of the CAs of %s.",
		meanwhile: "until then, the servers accept client certificates of the CAs that they have",
		authority: true,
		told:      func(t *agentapi.ServerTLSStatus) (string, string) { return t.Clients, t.ClientsProblem },
	}}
}

// Decide says which CAs database pods get, and whether they are those that spec wants. What was good stays.
func (b *Bundle) Decide(before []byte, agents map[string]*agentapi.Status, now time.Time) ([]byte, condition.Finding) {
	if b.Wanted == nil {
		return nil, b.withdraw(agents)
	}
	if refused := b.refuse(now); refused.Reason != "" {
		return before, refused
	}
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		hash, problem := b.toldBy(agents[name])
		if problem != "" {
			return b.Content, condition.False(v1alpha1.ReasonCertificateRefused, fmt.Sprintf("Instance %s: %s", name, problem))
		}
		if hash != agentapi.HashTLS(b.Content) {
			waiting = append(waiting, name)
		}
	}
	if len(waiting) > 0 {
		return b.Content, condition.False(v1alpha1.ReasonApplying, fmt.Sprintf(b.waiting, b.source(), phrase.List(waiting)))
	}
	return b.Content, condition.True(v1alpha1.ReasonCurrent, fmt.Sprintf(b.current, b.source()))
}

// withdraw says who still trusts CAs that spec doesn't have any more.
func (b *Bundle) withdraw(agents map[string]*agentapi.Status) condition.Finding {
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if hash, _ := b.toldBy(agents[name]); hash != "" {
			waiting = append(waiting, name)
		}
	}
	if len(waiting) == 0 {
		return condition.Finding{}
	}
	return condition.False(v1alpha1.ReasonApplying, fmt.Sprintf(b.withdrawn, phrase.List(waiting)))
}

func (b *Bundle) toldBy(agent *agentapi.Status) (hash, problem string) {
	if agent.ServerTLS == nil {
		return "", ""
	}
	return b.told(agent.ServerTLS)
}

func (b *Bundle) refuse(now time.Time) condition.Finding {
	where, missing := b.key()
	refused := func(format string, args ...any) condition.Finding {
		return condition.False(v1alpha1.ReasonCertificateRefused, fmt.Sprintf(format, args...)+"; "+b.meanwhile+".")
	}
	if !b.Found {
		return condition.False(missing, fmt.Sprintf("There is no %s, which %s names; create it with the key %s; %s.", b.source(), b.field, where.Key, b.meanwhile))
	}
	if len(b.Content) == 0 {
		return refused("%s, which %s names, has nothing under the key %s; write certificates of CAs there, in PEM", b.source(), b.field, where.Key)
	}
	if len(b.Content) > mostBytes {
		return refused("The key %s of %s is larger than 128 KiB; keep only the CAs there that %s needs", where.Key, b.source(), b.field)
	}
	cas, good := certificates(b.Content)
	if !good {
		return refused("The key %s of %s has something that is not a certificate in PEM; write only certificates of CAs there", where.Key, b.source())
	}
	for _, ca := range cas {
		if b.authority && (!ca.BasicConstraintsValid || !ca.IsCA) {
			return refused("The key %s of %s has a certificate of %s, which is not a CA; write the certificate of the CA that has signed it there", where.Key, b.source(), ca.Subject)
		}
	}
	if b.authority && !slices.ContainsFunc(cas, func(ca *x509.Certificate) bool { return now.Before(ca.NotAfter) }) {
		return refused("All CAs under the key %s of %s have expired; write CAs that are valid there", where.Key, b.source())
	}
	return condition.Finding{}
}

// certificates in PEM. There must be some, and nothing else.
func certificates(content []byte) (all []*x509.Certificate, good bool) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			return nil, false
		}
		all = append(all, certificate)
	}
	return all, len(all) > 0
}

func (b *Bundle) key() (where *v1alpha1.BundleKey, missing string) {
	if b.Wanted.ConfigMap != nil {
		return b.Wanted.ConfigMap, v1alpha1.ReasonConfigMapNotFound
	}
	return b.Wanted.Secret, v1alpha1.ReasonSecretNotFound
}

func (b *Bundle) source() string {
	if b.Wanted.ConfigMap != nil {
		return "ConfigMap " + b.Wanted.ConfigMap.Name
	}
	return "Secret " + b.Wanted.Secret.Name
}

// All findings as one: what is wrong comes first.
func All(findings ...condition.Finding) (all condition.Finding) {
	for _, found := range findings {
		switch {
		case found.Reason == "":
		case all.Reason == "", all.Status == metav1.ConditionTrue && found.Status != metav1.ConditionTrue:
			all = found
		case all.Status == metav1.ConditionTrue || found.Status != metav1.ConditionTrue:
			all.Message += " " + found.Message
		}
	}
	return all
}
