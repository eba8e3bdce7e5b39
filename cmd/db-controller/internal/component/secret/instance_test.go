package secret

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/pkg/agentapi"
)

// instance is the Secret of pods as it is wanted at noon.
func instance(t *testing.T, live *corev1.Secret, authority *certificate.Authority, passwords agentapi.Passwords) *corev1.Secret {
	t.Helper()
	return instanceAt(t, noon, live, authority, passwords)
}

func instanceAt(t *testing.T, now time.Time, live *corev1.Secret, authority *certificate.Authority, passwords agentapi.Passwords) *corev1.Secret {
	t.Helper()
	secret, err := Instance(shop(), live, authority, Passwords{Roles: passwords, App: []byte("first")}, now)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func newAuthority(t *testing.T) *certificate.Authority {
	t.Helper()
	_, authority, err := Authority(shop(), nil, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func TestPasswordsOfRolesHaveAnotherRevisionWithEachContentAndNoneThatTellsOfIt(t *testing.T) {
	authority := newAuthority(t)
	first := instance(t, nil, authority, agentapi.Passwords{"a": []byte("x")})
	same := instance(t, first, authority, agentapi.Passwords{"a": []byte("x")})
	if got := same.Annotations[AnnotationRevision]; got == "" || got != first.Annotations[AnnotationRevision] {
		t.Errorf("the same content has revision %q", got)
	}
	seen := map[string]bool{first.Annotations[AnnotationRevision]: true}
	for name, passwords := range map[string]agentapi.Passwords{
		"another password": {"a": []byte("y")}, "one more": {"a": []byte("x"), "b": nil}, "none": nil,
	} {
		got := instance(t, first, authority, passwords).Annotations[AnnotationRevision]
		if seen[got] {
			t.Errorf("%s: revision %q again", name, got)
		}
		seen[got] = true
	}
	if again := instance(t, nil, authority, agentapi.Passwords{"a": []byte("x")}); seen[again.Annotations[AnnotationRevision]] {
		t.Error("a revision is made of the content, and tells when it is guessed right")
	}
}

func TestThePasswordOfTheApplicationHasARevisionToo(t *testing.T) {
	authority := newAuthority(t)
	first := instance(t, nil, authority, nil)
	if got := string(first.Data[KeyAppPassword]); got != "first" {
		t.Errorf("pods get %q", got)
	}
	none, err := Instance(shop(), first, authority, Passwords{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if password, there := none.Data[KeyAppPassword]; !there || password == nil || len(password) > 0 {
		t.Error("without a password there is no key for it, or something in it, so that no pod could mount it")
	}
	if none.Annotations[AnnotationRevision] == first.Annotations[AnnotationRevision] {
		t.Error("another password has the same revision")
	}
}

func TestPodsGetPasswordsAsTheyAreAndNothingElseChangesWithThem(t *testing.T) {
	authority := newAuthority(t)
	before := instance(t, nil, authority, nil)
	if got := string(before.Data[KeyRoles]); got != "{}" {
		t.Errorf("with no password it is %s", got)
	}
	odd := []byte("\xff\"<ü>")
	after := instance(t, before, authority, agentapi.Passwords{"web.1": odd})
	got := agentapi.Passwords{}
	if err := json.Unmarshal(after.Data[KeyRoles], &got); err != nil || len(got) != 1 || !bytes.Equal(got["web.1"], odd) {
		t.Errorf("got %q, %v", got, err)
	}
	for key, value := range before.Data {
		if key != KeyRoles && !bytes.Equal(after.Data[key], value) {
			t.Errorf("%s is another one", key)
		}
	}
}

func TestEachCertificateOfPodsStaysUntilItHasToBeCreatedAgain(t *testing.T) {
	authority := newAuthority(t)
	first := instance(t, nil, authority, nil)
	later := instanceAt(t, noon.Add(time.Hour), first, authority, nil)
	late := instanceAt(t, noon.Add(certificate.LeafLife*3/4), first, authority, nil)
	for _, key := range []string{KeyServerCertificate, KeyServerPrivate, KeyReplicationCertificate, KeyReplicationPrivate} {
		if len(first.Data[key]) == 0 || !bytes.Equal(later.Data[key], first.Data[key]) {
			t.Errorf("%s is another one after an hour, or empty", key)
		}
		if bytes.Equal(late.Data[key], first.Data[key]) {
			t.Errorf("%s is the same near its end", key)
		}
	}
	delete(later.Data, KeyReplicationPrivate)
	repaired := instance(t, later, authority, nil)
	if len(repaired.Data[KeyReplicationPrivate]) == 0 || !bytes.Equal(repaired.Data[KeyServerPrivate], first.Data[KeyServerPrivate]) {
		t.Error("a lost key is not made anew, or another one with it")
	}
}
