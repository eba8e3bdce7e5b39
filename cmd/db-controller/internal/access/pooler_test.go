package access

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestTheCertificateOfPoolersIsForTheirServicesAndGoesWithTheLastOfThem(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) { o.Live = map[string]client.Object{} })
	var err error
	if o.Authority, err = certificate.NewAuthority("ca", nil, o.Now); err != nil {
		t.Fatal(err)
	}
	api := fakeapi.New(o.Cluster)
	steps := &Steps{Applier: &apply.Applier{Client: api, Secrets: &secretcache.Cache{}}}
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: "demo", Name: "shop-pooler"}
	for _, poolers := range [][]string{nil, {"web"}, {"batch", "web"}, {"web"}, nil} {
		o.Poolers = poolers
		if outcome := steps.EnsurePoolerCertificate(t.Context(), o); !outcome.Finished() {
			t.Fatalf("%v: %+v", poolers, outcome)
		}
		if !slices.Equal(o.Cluster.Status.Poolers, poolers) {
			t.Errorf("status has %v instead of %v", o.Cluster.Status.Poolers, poolers)
		}
		err := api.Get(t.Context(), key, secret)
		if len(poolers) == 0 {
			if !apierrors.IsNotFound(err) {
				t.Errorf("there is a certificate for nobody: %v", err)
			}
			continue
		}
		block, _ := pem.Decode(secret.Data["tls.crt"])
		if err != nil || block == nil {
			t.Fatal(err, secret)
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil || leaf.Subject.CommonName != agentapi.PoolerRole || len(leaf.DNSNames) != 4*len(poolers) || len(leaf.ExtKeyUsage) != 2 {
			t.Errorf("%v: %v of %v for %v", err, leaf.ExtKeyUsage, leaf.Subject, leaf.DNSNames)
		}
		for _, name := range poolers {
			if leaf.VerifyHostname(name+"-pooler.demo.svc") != nil {
				t.Errorf("it is not for %s: %v", name, leaf.DNSNames)
			}
		}
	}
}
