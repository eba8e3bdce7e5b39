package location

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
)

// Grant lets the BackupRepositories of a namespace that name no credentials use the cloud identity of the controller itself, in
// one place. Only the administrator of the suite gives it, so that nobody reaches a bucket by the rights of the controller alone.
type Grant struct {
	Namespace string `json:"namespace"`
	Bucket    string `json:"bucket"`
	// Prefix is the only one, with all that is below it; empty is the whole bucket.
	Prefix string `json:"prefix,omitempty"`
	// Endpoint is the only server; empty is AWS. Another one would learn what requests are signed with.
	Endpoint string `json:"endpoint,omitempty"`
}

// Grants are all that were given.
type Grants []Grant

// ParseGrants reads the value of --cloud-identity-grants: a list of grants in JSON, or nothing.
func ParseGrants(text string) (Grants, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var grants Grants
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&grants); err != nil {
		return nil, fmt.Errorf("--cloud-identity-grants is not a list of namespace, bucket, prefix and endpoint in JSON: %w", err)
	}
	for i, grant := range grants {
		if err := grant.validate(); err != nil {
			return nil, fmt.Errorf("--cloud-identity-grants: entry %d: %w", i, err)
		}
	}
	return grants, nil
}

func (g Grant) validate() error {
	switch {
	case g.Namespace == "":
		return errors.New("it has no namespace")
	case g.Bucket == "":
		return errors.New("it has no bucket")
	}
	return objstore.Config{Driver: objstore.DriverAWS, Bucket: g.Bucket, Prefix: g.Prefix}.Validate()
}

// Allow says whether a repository may use the controller's own identity.
func (g Grants) Allow(repo *v1alpha1.BackupRepository) bool {
	for _, grant := range g {
		if grant.covers(repo) {
			return true
		}
	}
	return false
}

func (g Grant) covers(repo *v1alpha1.BackupRepository) bool {
	s3 := repo.Spec.S3
	if repo.Namespace != g.Namespace || s3.Bucket != g.Bucket || strings.TrimRight(s3.Endpoint, "/") != strings.TrimRight(g.Endpoint, "/") {
		return false
	}
	want, have := strings.Trim(g.Prefix, "/"), strings.Trim(s3.Prefix, "/")
	return want == "" || have == want || strings.HasPrefix(have, want+"/")
}
