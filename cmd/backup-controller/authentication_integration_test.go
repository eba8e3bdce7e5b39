//go:build integration

package main

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func (b *bed) signed(name string) *v1alpha1.BackupRepository {
	repo := b.repository(name)
	repo.Spec.Authentication = &v1alpha1.AuthenticationSpec{SecretName: "keys"}
	return repo
}

func TestARepositoryIsSignedWithTheKeysOfItsSecretAndReadableWithout(t *testing.T) {
	b := newBed(t)
	repo := b.signed("minio")
	b.make(repo)
	if got := b.awaitReady(repo, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound); !strings.Contains(got, "spec.authentication.secretName") {
		t.Errorf("got %q", got)
	}
	b.keys(map[string]string{"k1": key("01")})
	b.touch(repo)
	if got := b.awaitReady(repo, metav1.ConditionTrue, v1alpha1.ReasonAvailable); !strings.Contains(got, "signed with key k1") {
		t.Errorf("got %q", got)
	}
	if got := repo.Status.Authentication; got == nil || got.Key != "k1" || repo.Status.Encryption != nil {
		t.Errorf("got %+v, encryption %+v", got, repo.Status.Encryption)
	}
	marker, err := layout.ReadMarker(t.Context(), b.store)
	if err != nil || marker.Authentication != layout.AuthenticationHMAC || marker.Encryption != "" {
		t.Errorf("got %+v, %v", marker, err)
	}
}

func TestAuthenticationThatDoesNotFitTheBucketIsRefused(t *testing.T) {
	b := newBed(t)
	b.keys(map[string]string{"k1": key("01")})
	plain, other := b.repository("plain"), b.signed("other")
	b.make(plain)
	b.awaitReady(plain, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	b.make(other)
	if got := b.awaitReady(other, metav1.ConditionFalse, v1alpha1.ReasonNotAuthenticated); !strings.Contains(got, "another prefix") {
		t.Errorf("got %q", got)
	}
	b.store = mem.New()
	buckets.set(b.bucket, b.store)
	first, without, sealed := b.signed("first"), b.repository("without"), b.encrypted("sealed")
	b.make(first)
	b.awaitReady(first, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	b.make(without)
	if got := b.awaitReady(without, metav1.ConditionFalse, v1alpha1.ReasonKeyNotFound); !strings.Contains(got, "spec.authentication.secretName") {
		t.Errorf("got %q", got)
	}
	b.make(sealed)
	b.awaitReady(sealed, metav1.ConditionFalse, v1alpha1.ReasonNotEncrypted)
}

// TestABackupWithoutASignatureIsNotFoundInASignedRepository: somebody without a key has put a backup of their own into the bucket.
func TestABackupWithoutASignatureIsNotFoundInASignedRepository(t *testing.T) {
	b := newBed(t)
	b.keys(map[string]string{"k1": key("01")})
	first, repo := b.signed("first"), b.signed("second")
	b.make(first)
	b.awaitReady(first, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	lineage := "7412345678901234567-g1"
	for key, body := range map[string][]byte{
		layout.LineageKey(lineage):             []byte(`{"format":2,"lineage":"` + lineage + `","writer":{"uid":"u"},"segmentSize":16777216}`),
		layout.ManifestKey(lineage, "planted"): bytes.Repeat([]byte("x"), 500),
	} {
		if err := b.store.Put(t.Context(), key, body, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	repo.Spec.Catalogue = v1alpha1.CatalogueAll
	b.make(repo)
	b.eventually(repo, "an inventory that names the object without a signature", func() bool {
		return len(repo.Status.Lineages) == 1 && strings.Contains(repo.Status.Lineages[0].Unreadable, "lineages/")
	})
	backups := &v1alpha1.BackupList{}
	if err := b.List(t.Context(), backups, client.InNamespace(b.namespace)); err != nil || len(backups.Items) > 0 {
		t.Errorf("%d Backups, %v", len(backups.Items), err)
	}
}
