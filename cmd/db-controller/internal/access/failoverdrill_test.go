package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestTheCertificateOfAFailoverDrillIsThereBeforeTheResponseAndGoesWithTheRequest(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) { o.Live = map[string]client.Object{} })
	var err error
	if o.Authority, err = certificate.NewAuthority("ca", nil, o.Now); err != nil {
		t.Fatal(err)
	}
	api := fakeapi.New(o.Cluster)
	steps := &Steps{Applier: &apply.Applier{Client: api, Secrets: &secretcache.Cache{}}}
	certificate, key := &corev1.Secret{}, client.ObjectKey{Namespace: "demo", Name: "shop-failover-drill"}
	for _, name := range []string{"", "a", "b", ""} {
		o.FailoverDrill = nil
		if name != "" {
			o.FailoverDrill = &v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		}
		if outcome := steps.EnsureFailoverDrillCertificate(t.Context(), o); !outcome.Finished() {
			t.Fatalf("%q: %+v", name, outcome)
		}
		err := api.Get(t.Context(), key, certificate)
		response := o.Cluster.Status.FailoverDrill
		if name == "" {
			if response != nil || !apierrors.IsNotFound(err) {
				t.Errorf("there is a response to nobody: %+v %v", response, err)
			}
			continue
		}
		if response == nil || response.UID != o.FailoverDrill.UID || response.State != v1alpha1.FailoverDrillPrepared {
			t.Errorf("%q: %+v", name, response)
		}
		block, _ := pem.Decode(certificate.Data["tls.crt"])
		if err != nil || block == nil {
			t.Fatal(err, certificate)
		}
		if leaf, err := x509.ParseCertificate(block.Bytes); err != nil || leaf.Subject.CommonName != agentapi.FailoverDrillRole {
			t.Errorf("%q: %v %v", name, err, leaf.Subject)
		}
		response.State = v1alpha1.FailoverDrillInjected
		steps.EnsureFailoverDrillCertificate(t.Context(), o)
		if response.State != v1alpha1.FailoverDrillInjected {
			t.Errorf("%q: the response begins anew", name)
		}
	}
}

// undeletable refuses to delete.
type undeletable struct{ client.Client }

func (undeletable) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errors.New("the API server is away")
}

// A Secret is read only while status names whom it is for.
func TestStatusForgetsACertificateOnlyOnceItIsRemoved(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) { o.Live = map[string]client.Object{} })
	for _, name := range []string{o.Names.Pooler(), o.Names.FailoverDrill()} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.Cluster, v1alpha1.GroupVersion.WithKind(v1alpha1.KindPostgresCluster))}
		o.Live[observed.Key("Secret", name)] = s
	}
	o.Cluster.Status.Poolers, o.Cluster.Status.FailoverDrill = []string{"p"}, &v1alpha1.ClusterFailoverDrill{}
	steps := &Steps{Applier: &apply.Applier{Client: undeletable{fakeapi.New(o.Cluster)}, Secrets: &secretcache.Cache{}}}
	if outcome := steps.EnsurePoolerCertificate(t.Context(), o); outcome.Err == nil || len(o.Cluster.Status.Poolers) == 0 {
		t.Errorf("%+v, %v", outcome, o.Cluster.Status.Poolers)
	}
	if outcome := steps.EnsureFailoverDrillCertificate(t.Context(), o); outcome.Err == nil || o.Cluster.Status.FailoverDrill == nil {
		t.Errorf("%+v, %v", outcome, o.Cluster.Status.FailoverDrill)
	}
}
