package release

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
)

const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
	inTotoType     = "application/vnd.in-toto+json"
	buildType      = "https://howdah.dev/release/v1"
)

type statement struct {
	Type          string         `json:"_type"`
	Subject       []resource     `json:"subject"`
	PredicateType string         `json:"predicateType"`
	Predicate     map[string]any `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// envelope is a signed statement (DSSE).
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// writeProvenance says of each image, chart and file what it was built from, and by what. It names no time and no run, which would
// differ between two builds of one commit.
func (r *Release) writeProvenance(published *published) error {
	files, err := r.sums()
	if err != nil {
		return err
	}
	subjects := make([]resource, 0, len(files)+len(published.all))
	for _, p := range published.all {
		subjects = append(subjects, resource{Name: p.repository, Digest: map[string]string{p.digest.Algorithm: p.digest.Hex}})
	}
	for _, f := range files {
		if !strings.HasPrefix(f.name, layoutName+"/") {
			subjects = append(subjects, resource{Name: f.name, Digest: map[string]string{"sha256": f.sum}})
		}
	}
	document, err := json.Marshal(statement{Type: statementType, Subject: subjects, PredicateType: provenanceType, Predicate: r.predicate()})
	if err != nil {
		return err
	}
	if err := r.write(provenanceName, append(document, '\n')); err != nil {
		return err
	}
	if r.Key == nil {
		return nil
	}
	signed, err := r.Key.Sign(preAuthentication(inTotoType, document))
	if err != nil {
		return err
	}
	line, err := json.Marshal(envelope{
		PayloadType: inTotoType, Payload: base64.StdEncoding.EncodeToString(document),
		Signatures: []envelopeSignature{{Sig: base64.StdEncoding.EncodeToString(signed)}},
	})
	if err != nil {
		return err
	}
	return r.write(attestedName, append(line, '\n'))
}

// preAuthentication is what DSSE signs: the type and the content, each with its length.
func preAuthentication(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

func (r *Release) predicate() map[string]any {
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType": buildType,
			"externalParameters": map[string]any{
				"version": r.Source.Version, "repository": r.Repository, "downloads": r.Downloads,
				"architectures": r.Arches, "platforms": r.Platforms,
			},
			"internalParameters": map[string]any{"go": runtime.Version()},
			"resolvedDependencies": []resource{{
				URI: "git+https://howdah.dev/howdah", Digest: map[string]string{"gitCommit": r.Source.Revision},
			}},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": r.Builder}},
	}
}
