package reading

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
)

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
