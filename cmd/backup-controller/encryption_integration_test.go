//go:build integration

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func key(b string) string { return strings.Repeat(b, 32) }

func (b *bed) encrypted(name string) *v1alpha1.BackupRepository {
	repo := b.repository(name)
	repo.Spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
	return repo
}

func (b *bed) keys(entries map[string]string) *corev1.Secret {
	b.Helper()
	secret := &corev1.Secret{StringData: entries}
	secret.Name = "keys"
	b.make(secret)
	return secret
}

// awaitReady waits until the repository's condition has the reason, and returns its message.
func (b *bed) awaitReady(repo *v1alpha1.BackupRepository, status metav1.ConditionStatus, reason string) string {
	b.Helper()
	message := ""
	b.eventually(repo, "Ready "+reason, func() bool {
		condition := meta.FindStatusCondition(repo.Status.Conditions, v1alpha1.ConditionReady)
		if condition == nil || repo.Status.ObservedGeneration != repo.Generation {
			return false
		}
		message = condition.Message
		return condition.Status == status && condition.Reason == reason
	})
	return message
}

// touch has the repository looked at.
func (b *bed) touch(repo *v1alpha1.BackupRepository) {
	b.Helper()
	before := repo.DeepCopy()
	repo.Annotations = map[string]string{"test/touched": time.Now().Format(time.RFC3339Nano)}
	if err := b.Patch(b.Context(), repo, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

func TestARepositoryIsEncryptedWithTheKeysOfItsSecretAndMovesToAnother(t *testing.T) {
	b := newBed(t)
	repo := b.encrypted("minio")
	b.make(repo)
	if got := b.awaitReady(repo, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound); !strings.Contains(got, "spec.encryption.secretName") {
		t.Errorf("got %q", got)
	}
	secret := b.keys(map[string]string{"k1": key("01")})
	b.touch(repo)
	b.awaitReady(repo, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	if got := repo.Status.Encryption; got == nil || got.Key != "k1" || !slices.Equal(got.NeededKeys, []string{"k1"}) || len(got.SpareKeys) > 0 {
		t.Errorf("got %+v", got)
	}
	marker, err := layout.ReadMarker(t.Context(), b.store)
	if err != nil || marker.Encryption != layout.EncryptionAES {
		t.Errorf("got %+v, %v", marker, err)
	}

	secret.StringData = map[string]string{"k2": key("02")}
	if err := b.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	before := repo.DeepCopy()
	repo.Spec.Encryption.Key = "k2"
	if err := b.Patch(t.Context(), repo, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.eventually(repo, "key k2", func() bool { return repo.Status.Encryption != nil && repo.Status.Encryption.Key == "k2" })
	if got := repo.Status.Encryption; !slices.Equal(got.NeededKeys, []string{"k2"}) || !slices.Equal(got.SpareKeys, []string{"k1"}) {
		t.Errorf("got %+v", got)
	}

	secret.Data = map[string][]byte{"k2": []byte(key("03"))}
	if err := b.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.touch(repo)
	message := b.awaitReady(repo, metav1.ConditionFalse, v1alpha1.ReasonWrongKey)
	if !strings.Contains(message, "key k2 is not the one") || strings.Contains(message, key("02")) || strings.Contains(message, key("03")) {
		t.Errorf("got %q", message)
	}
}

func TestEncryptionThatDoesNotFitTheBucketIsRefused(t *testing.T) {
	b := newBed(t)
	b.keys(map[string]string{"k1": key("01")})
	plain, other := b.repository("plain"), b.encrypted("other")
	b.make(plain)
	b.awaitReady(plain, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	b.make(other)
	if got := b.awaitReady(other, metav1.ConditionFalse, v1alpha1.ReasonNotEncrypted); !strings.Contains(got, "another prefix") {
		t.Errorf("got %q", got)
	}

	b.store = mem.New()
	buckets.set(b.bucket, b.store)
	b.touch(other)
	first := b.encrypted("first")
	b.make(first)
	b.awaitReady(first, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	without := b.repository("without")
	b.make(without)
	if got := b.awaitReady(without, metav1.ConditionFalse, v1alpha1.ReasonKeyNotFound); !strings.Contains(got, "spec.encryption.secretName") {
		t.Errorf("got %q", got)
	}
}

func TestEncryptionCannotBeSwitchedOnOrOff(t *testing.T) {
	b := newBed(t)
	plain, encrypted := b.repository("plain"), b.encrypted("encrypted")
	b.make(plain)
	b.make(encrypted)
	for _, repo := range []*v1alpha1.BackupRepository{plain, encrypted} {
		before := repo.DeepCopy()
		if repo.Spec.Encryption == nil {
			repo.Spec.Encryption = &v1alpha1.EncryptionSpec{SecretName: "keys"}
		} else {
			repo.Spec.Encryption = nil
		}
		err := b.Patch(t.Context(), repo, client.MergeFrom(before))
		if err == nil || !strings.Contains(err.Error(), "another spec.s3.prefix") {
			t.Errorf("%s: got %v", repo.Name, err)
		}
	}
	same := b.encrypted("same")
	same.Namespace = b.namespace
	same.Spec.S3.Credentials = &v1alpha1.S3Credentials{SecretName: "keys"}
	if err := b.Create(t.Context(), same); err == nil || !strings.Contains(err.Error(), "must not be the Secret of spec.s3.credentials") {
		t.Errorf("got %v", err)
	}
}

func TestTheJobOfABackupMountsTheKeys(t *testing.T) {
	b := newBed(t)
	b.keys(map[string]string{"k1": key("01")})
	repo := b.encrypted("minio")
	b.make(repo)
	b.awaitReady(repo, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	b.cluster("shop")
	b.backup("first", "shop")
	job := b.job("first-backup")
	mounts := job.Spec.Template.Spec.Containers[0].VolumeMounts
	if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == agentapi.KeysDir && m.ReadOnly }) {
		t.Errorf("mounted are %+v", mounts)
	}
	if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == agentapi.SecretsDir+"/shop-app" && m.ReadOnly }) {
		t.Errorf("the login of the application is not mounted: %+v", mounts)
	}
}

func TestTheJobOfABackupMountsNoLoginsWithoutEncryption(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	b.awaitReady(repo, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	b.cluster("shop")
	b.backup("first", "shop")
	job := b.job("first-backup")
	for _, mount := range job.Spec.Template.Spec.Containers[0].VolumeMounts {
		if strings.HasPrefix(mount.MountPath, agentapi.SecretsDir) || mount.MountPath == agentapi.KeysDir {
			t.Errorf("mounted is %+v", mount)
		}
	}
}

// TestABucketThatWasEmptiedIsNotTakenForANewOne: nothing is written there, and status says what to do.
func TestABucketThatWasEmptiedIsNotTakenForANewOne(t *testing.T) {
	b := newBed(t)
	repo := b.repository("minio")
	b.make(repo)
	ready := func(reason string) func() bool {
		return func() bool {
			condition := meta.FindStatusCondition(repo.Status.Conditions, v1alpha1.ConditionReady)
			return condition != nil && condition.Reason == reason && condition.ObservedGeneration == repo.Generation
		}
	}
	b.eventually(repo, "Ready", ready(v1alpha1.ReasonAvailable))
	identity := repo.Status.Identity
	b.must(b.store.Delete(t.Context(), "howdah.json"))
	b.change(repo, func() { repo.Spec.Catalogue = v1alpha1.CatalogueOff })
	b.eventually(repo, "it is noticed", ready(v1alpha1.ReasonRepositoryReplaced))
	if _, err := b.store.Stat(t.Context(), "howdah.json"); err == nil || identity == "" || repo.Status.Identity != identity {
		t.Errorf("identity %q, then %q, %v", identity, repo.Status.Identity, err)
	}
}
