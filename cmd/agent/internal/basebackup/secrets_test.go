package basebackup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
)

func TestSecretsAreKeptInAnEncryptedRepositoryOnly(t *testing.T) {
	dir := t.TempDir()
	for path, content := range map[string]string{"app/..data/x": "", "app/password": "s3cret", "app/username": "app"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	task := agentapi.BackupJob{Secrets: []agentapi.KeptSecret{{Purpose: backup.SecretApplication, Name: "app"}, {Purpose: backup.SecretRole, Name: "gone"}}}
	if got, err := keptSecrets(task, dir); err != nil || got != nil {
		t.Errorf("without encryption: %v, %v", got, err)
	}
	task.Repository.Encryption = &objstore.Encryption{Sign: true}
	if got, err := keptSecrets(task, dir); err != nil || got != nil {
		t.Errorf("in a repository that is only signed: %v, %v", got, err)
	}
	task.Repository.Encryption = &objstore.Encryption{}
	got, err := keptSecrets(task, dir)
	if err != nil || len(got) != 1 || got[0].Name != "app" || len(got[0].Data) != 2 || string(got[0].Data["password"]) != "s3cret" {
		t.Fatalf("got %v, %v", got, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, "s3cret") {
		t.Errorf("it prints as %s", text)
	}
	raw, err := json.Marshal(got)
	again := []backup.Secret{}
	if err != nil || json.Unmarshal(raw, &again) != nil || string(again[0].Data["password"]) != "s3cret" {
		t.Errorf("read back: %v", err)
	}
}
