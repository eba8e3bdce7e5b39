package servertls

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// mostBytes of a bundle: it is copied into the Secret of database pods.
const mostBytes = 128 << 10

// Directories are where the CAs of directories come from, and what was found there.
type Directories struct {
	Wanted  *v1alpha1.CABundle // nil: those of the image
	Found   bool               // there is such a ConfigMap or Secret
	Content []byte             // of the key
}

// Decide says which CAs of directories database pods get, and whether they are those that spec wants. What was good stays.
func (d *Directories) Decide(before []byte, agents map[string]*agentapi.Status) ([]byte, condition.Finding) {
	if d.Wanted == nil {
		return nil, condition.Finding{}
	}
	if refused := d.refuse(); refused.Reason != "" {
		return before, refused
	}
	var waiting []string
	for name, agent := range agents {
		if agent.ServerTLS == nil || agent.ServerTLS.LDAP != agentapi.HashTLS(d.Content) {
			waiting = append(waiting, name)
		}
	}
	slices.Sort(waiting)
	if len(waiting) > 0 {
		return d.Content, condition.False(v1alpha1.ReasonApplying, fmt.Sprintf("Instances have yet to trust the CAs of %s in directories: %s.", d.source(), phrase.List(waiting)))
	}
	return d.Content, condition.True(v1alpha1.ReasonCurrent, fmt.Sprintf("The servers trust the CAs of %s in directories.", d.source()))
}

func (d *Directories) refuse() condition.Finding {
	const meanwhile = "; until then, logins by ldap continue with the CAs that the servers have"
	where, missing := d.key()
	switch {
	case !d.Found:
		return condition.False(missing, fmt.Sprintf("There is no %s, which spec.postgresql.ldapCA names; create it with the key %s%s.", d.source(), where.Key, meanwhile))
	case len(d.Content) == 0:
		return condition.False(v1alpha1.ReasonCertificateRefused, fmt.Sprintf("%s, which spec.postgresql.ldapCA names, has nothing under the key %s; write certificates of CAs there, in PEM%s.", d.source(), where.Key, meanwhile))
	case len(d.Content) > mostBytes:
		return condition.False(v1alpha1.ReasonCertificateRefused, fmt.Sprintf("The key %s of %s is larger than 128 KiB; keep only the CAs of the directories there%s.", where.Key, d.source(), meanwhile))
	case !certificates(d.Content):
		return condition.False(v1alpha1.ReasonCertificateRefused, fmt.Sprintf("The key %s of %s has something that is not a certificate in PEM; write only certificates of CAs there%s.", where.Key, d.source(), meanwhile))
	}
	return condition.Finding{}
}

// certificates says whether there are some, and nothing else in PEM.
func certificates(content []byte) bool {
	block, rest := pem.Decode(content)
	if block == nil {
		return false
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return false
		}
	}
	return true
}

func (d *Directories) key() (where *v1alpha1.BundleKey, missing string) {
	if d.Wanted.ConfigMap != nil {
		return d.Wanted.ConfigMap, v1alpha1.ReasonConfigMapNotFound
	}
	return d.Wanted.Secret, v1alpha1.ReasonSecretNotFound
}

func (d *Directories) source() string {
	if d.Wanted.ConfigMap != nil {
		return "ConfigMap " + d.Wanted.ConfigMap.Name
	}
	return "Secret " + d.Wanted.Secret.Name
}

// Both findings as one: what is wrong comes first.
func Both(server, directories condition.Finding) condition.Finding {
	switch {
	case server.Reason == "" || directories.Reason == "":
		return condition.Finding{
			Status: cmp.Or(server.Status, directories.Status), Reason: cmp.Or(server.Reason, directories.Reason), Message: cmp.Or(server.Message, directories.Message),
		}
	case server.Status == metav1.ConditionTrue && directories.Status != metav1.ConditionTrue:
		return directories
	case server.Status != metav1.ConditionTrue && directories.Status == metav1.ConditionTrue:
		return server
	}
	server.Message += " " + directories.Message
	return server
}
