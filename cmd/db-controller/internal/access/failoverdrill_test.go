package access

import (
	"crypto/x509"
	"encoding/pem"
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
