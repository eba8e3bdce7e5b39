package reading

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAPasswordForLdapThatCanNotBeUsedIsNotCalledMissing(t *testing.T) {
	for content, says := range map[string]string{
		"geheim\n":               "",
		"geheim\nand more":       "one line of at most 200 bytes; give the directory's account such a one, and write it there",
		strings.Repeat("x", 201): "one line of at most 200 bytes",
		"":                       "has no password: Secret directory has nothing under the key password",
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "directory"}, Data: map[string][]byte{"password": []byte(content)}}
		o := &observed.Cluster{Cluster: &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "shop"}}}
		o.Cluster.Spec.PostgreSQL.LDAPPasswordSecret = &v1alpha1.PasswordSecret{Name: "directory", Key: "password"}
		r := &Reader{Client: fake.NewClientBuilder().WithObjects(secret).Build(), Secrets: &secretcache.Cache{}}
		if err := r.readPasswords(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(o.NoPasswords, "\n")
		if (said == "") != (says == "") || !strings.Contains(said, says) || strings.Contains(said, "has no password") != (content == "") || strings.Contains(said, "geheim") {
			t.Errorf("%q: %s", content, said)
		}
		if got := string(o.Passwords[agentapi.LDAPPasswordKey]); (got == "geheim") != (says == "") {
			t.Errorf("%q is used", got)
		}
	}
}

func TestAPasswordIsTakenAsAPersonWouldWriteIt(t *testing.T) {
	where := &v1alpha1.PasswordSecret{Name: "web", Key: "password"}
	for name, test := range map[string]struct {
		secret         *corev1.Secret
		password, says string
	}{
		"as it is":             {&corev1.Secret{Data: map[string][]byte{"password": []byte(" a b ")}}, " a b ", ""},
		"with a line's end":    {&corev1.Secret{Data: map[string][]byte{"password": []byte("x\r\n")}}, "x", ""},
		"an empty one":         {&corev1.Secret{Data: map[string][]byte{"password": []byte("\n")}}, "", "nothing under the key password"},
		"under another key":    {&corev1.Secret{Data: map[string][]byte{"pass": []byte("x")}}, "", "nothing under the key password"},
		"one that isn't there": {nil, "", "there is no Secret web"},
	} {
		password, missing := passwordIn(test.secret, where)
		if string(password) != test.password || !strings.Contains(missing, test.says) || (missing == "") != (test.says == "") {
			t.Errorf("%s: %q", name, missing)
		}
	}
}
