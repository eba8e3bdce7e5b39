package reading

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAPasswordForLdapThatCanNotBeUsedIsNotCalledMissing(t *testing.T) {
	for content, c := range map[string]struct{ reason, says string }{
		"geheim\n":               {"", ""},
		"geheim\nand more":       {v1alpha1.ReasonPasswordRefused, "one line of at most 200 bytes; change the password of the account in the directory, and write the new one into the Secret"},
		strings.Repeat("x", 201): {v1alpha1.ReasonPasswordRefused, "one line of at most 200 bytes"},
		"":                       {v1alpha1.ReasonPasswordMissing, "has no password: Secret directory has nothing under the key password"},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "directory"}, Data: map[string][]byte{"password": []byte(content)}}
		o := &observed.Cluster{Cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "shop"}}}
		o.Cluster.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "directory", Key: "password"}
		r := &Reader{Client: fake.NewClientBuilder().WithObjects(secret).Build(), Secrets: &secretcache.Cache{}}
		if err := r.readPasswords(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		said := condition.Finding{}
		if len(o.NoPasswords) > 0 {
			said = o.NoPasswords[0]
		}
		if said.Reason != c.reason || !strings.Contains(said.Message, c.says) || strings.Contains(said.Message, "has no password") != (content == "") || strings.Contains(said.Message, "geheim") {
			t.Errorf("%q: %+v", content, said)
		}
		if got := string(o.Passwords[agentapi.LDAPPasswordKey]); (got == "geheim") != (c.says == "") {
			t.Errorf("%q is used", got)
		}
	}
}

func TestAPasswordIsTakenAsAPersonWouldWriteIt(t *testing.T) {
	wanted := password{subject: "role web", key: "web", where: &v1alpha1.PasswordSecret{Name: "web", Key: "password"}}
	for name, test := range map[string]struct {
		secret                 *corev1.Secret
		password, reason, says string
	}{
		"as it is":             {&corev1.Secret{Data: map[string][]byte{"password": []byte(" a b ")}}, " a b ", "", ""},
		"with a line's end":    {&corev1.Secret{Data: map[string][]byte{"password": []byte("x\r\n")}}, "x", "", ""},
		"an empty one":         {&corev1.Secret{Data: map[string][]byte{"password": []byte("\n")}}, "", v1alpha1.ReasonPasswordMissing, "nothing under the key password"},
		"under another key":    {&corev1.Secret{Data: map[string][]byte{"pass": []byte("x")}}, "", v1alpha1.ReasonPasswordMissing, "nothing under the key password"},
		"one that isn't there": {nil, "", v1alpha1.ReasonSecretNotFound, "there is no Secret web"},
	} {
		got, wrong := passwordIn(test.secret, wanted)
		if string(got) != test.password || !strings.Contains(wrong.Message, test.says) || wrong.Reason != test.reason {
			t.Errorf("%s: %+v", name, wrong)
		}
	}
}
