package bundle

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestWhatMayBeSecretIsLeftOutOfObjects(t *testing.T) {
	const given = `
metadata:
  name: shop
  managedFields: [{manager: kubectl}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: hidden, team: kept}
spec:
  postgresql: {parameters: {shared_buffers: kept, my_extension.api_key: hidden, auth_token: hidden}}
  pods:
    env: [{name: HTTPS_PROXY, value: hidden}, {name: OTHER, valueFrom: {secretKeyRef: {name: kept, key: kept}}}]
    containers: [{name: metrics, args: [--password=hidden], command: [hidden], image: kept, env: [{name: A, value: hidden}]}]
  template: {spec: {initContainers: [{name: install-agent, args: [kept]}], containers: [{name: postgres, args: [kept], env: [{name: A, value: hidden}]}]}}
`
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(given), &object); err != nil {
		t.Fatal(err)
	}
	redact(object)
	left, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(left), "hidden") || strings.Contains(string(left), "kubectl\"") || strings.Count(string(left), "kept") != strings.Count(given, "kept") {
		t.Errorf("%s", left)
	}
}

func TestUsersAndPasswordsOfURLsAreLeftOutOfTexts(t *testing.T) {
	for text, want := range map[string]string{
		"dial postgresql://app:pa@ss@shop-rw:5432/app": "dial postgresql://(left out)@shop-rw:5432/app",
		"HTTP://u:p@proxy, https://u:@b":               "HTTP://(left out)@proxy, https://u:@b",
		"https://minio.example:9000/bucket@v2":         "https://minio.example:9000/bucket@v2",
		`{"uri":"http://:p@host"}`:                     `{"uri":"http://(left out)@host"}`,
		"no password: postgresql://app@shop-rw/app":    "no password: postgresql://app@shop-rw/app",
	} {
		if got := string(withoutLogins([]byte(text))); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}
