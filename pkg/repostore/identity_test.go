package repostore

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore/location"
)

func repository(namespace, bucket, prefix, endpoint string) *v1alpha1.BackupRepository {
	return &v1alpha1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "repo"},
		Spec:       v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{Bucket: bucket, Prefix: prefix, Endpoint: endpoint}},
	}
}

// TestTheIdentityOfTheControllerIsUsedOnlyWhereItWasAllowed: a tenant names a bucket of somebody else's, or an endpoint that collects
// what a request is signed with, and no credentials.
func TestTheIdentityOfTheControllerIsUsedOnlyWhereItWasAllowed(t *testing.T) {
	grants := location.Grants{
		{Namespace: "shop", Bucket: "backups", Prefix: "shop/"},
		{Namespace: "stock", Bucket: "stock-backups"},
		{Namespace: "edge", Bucket: "edge", Endpoint: "https://s3.edge.example"},
	}
	for _, c := range []struct {
		name    string
		repo    *v1alpha1.BackupRepository
		allowed bool
	}{
		{"as allowed", repository("shop", "backups", "shop/", ""), true},
		{"without the slash", repository("shop", "backups", "shop", ""), true},
		{"below the prefix", repository("shop", "backups", "shop/a", ""), true},
		{"any prefix of a bucket", repository("stock", "stock-backups", "x", ""), true},
		{"at the endpoint", repository("edge", "edge", "", "https://s3.edge.example/"), true},
		{"another namespace", repository("evil", "backups", "shop/", ""), false},
		{"another bucket", repository("shop", "stock-backups", "shop/", ""), false},
		{"no prefix", repository("shop", "backups", "", ""), false},
		{"a prefix that begins alike", repository("shop", "backups", "shop-2/", ""), false},
		{"an endpoint of its own", repository("shop", "backups", "shop/", "https://evil.example"), false},
		{"AWS instead of the endpoint", repository("edge", "edge", "", ""), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Opening(grants)(t.Context(), nil, c.repo)
			if c.allowed != (err == nil) || err != nil && !errors.Is(err, objstore.ErrDenied) {
				t.Errorf("got %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "access denied") || !strings.Contains(objstore.Explain(err), "cloudIdentity.grants")) {
				t.Errorf("it says %q", objstore.Explain(err))
			}
		})
	}
	if _, err := Open(t.Context(), nil, repository("shop", "backups", "", "")); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("without any grant: %v", err)
	}
}
