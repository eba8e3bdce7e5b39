package repostore

import (
	"testing"

	"howdah.dev/howdah/pkg/backup"
)

func TestTheLoginsOfABackupGetTheNamesOfTheClusterThatIsRestoredFromIt(t *testing.T) {
	header := &backup.Header{Cluster: backup.Cluster{Name: "shop", Secrets: []backup.Secret{
		{Purpose: backup.SecretApplication, Name: "shop-app", Data: backup.SecretData{"password": []byte("a")}},
		{Purpose: backup.SecretSuperuser, Name: "shop-superuser", Data: backup.SecretData{"password": []byte("b")}},
		{Purpose: backup.SecretRole, Name: "reporting", Data: backup.SecretData{"password": []byte("c")}},
	}}}
	want := map[string]string{"copy-app": "a", "copy-superuser": "b", "reporting": "c"}
	got := Secrets(header, "demo", "copy")
	for _, secret := range got {
		if secret.Namespace != "demo" || string(secret.Data["password"]) != want[secret.Name] {
			t.Errorf("got %s/%s", secret.Namespace, secret.Name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d Secrets", len(got))
	}
	if got := Secrets(&backup.Header{}, "demo", "copy"); got != nil {
		t.Errorf("of none: %v", got)
	}
}

func TestSecretsAreShownWithoutWhatIsInThem(t *testing.T) {
	shown := backup.WithoutData([]backup.Secret{{Purpose: backup.SecretRole, Name: "reporting", Data: backup.SecretData{"password": []byte("c")}}})
	if len(shown) != 1 || shown[0].Name != "reporting" || shown[0].Data != nil {
		t.Errorf("got %v", shown)
	}
}
